"""The rules across sections, each with configs that break it alone."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest
from broken_rules import (
    beam,
    data,
    declared_types,
    deploy,
    encoder_decoder,
    gates,
    kserve,
    kubeflow,
    kubernetes,
    model,
    model_registry,
    multitask,
    notify,
    predict,
    schedule,
    serving,
    tfx_functions,
    training,
    trees,
    tune,
)
from broken_rules import features as features_rules
from broken_rules.sections import SOURCE, complete, features

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load
from headrace.configs.rules import registry

BROKEN = {
    **data.BROKEN,
    **declared_types.BROKEN,
    **deploy.BROKEN,
    **encoder_decoder.BROKEN,
    **features_rules.BROKEN,
    **gates.BROKEN,
    **model.BROKEN,
    **tfx_functions.BROKEN,
    **training.BROKEN,
    **trees.BROKEN,
    **tune.BROKEN,
    **beam.BROKEN,
    **kubeflow.BROKEN,
    **kubernetes.BROKEN,
    **schedule.BROKEN,
    **notify.BROKEN,
    **model_registry.BROKEN,
    **multitask.BROKEN,
    **kserve.BROKEN,
    **serving.BROKEN,
    **predict.BROKEN,
}
CASES = [(rule, text, reported) for rule, cases in BROKEN.items() for text, reported in cases]


def config(folder: Path, text: str) -> Path:
    file = folder / "c.yaml"
    file.write_text(complete(text))
    return file


@pytest.mark.parametrize(("rule", "text", "reported"), CASES)
def test_a_broken_rule_is_reported_at_its_line_and_alone(tmp_path: Path, rule: str, text: str, reported: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(config(tmp_path, text))
    line, setting, key_word = reported.split(": ", 2)
    (problem,) = caught.value.problems
    assert str(problem).startswith(f"{tmp_path}/c.yaml:{line}: {setting}: "), rule
    assert key_word in problem.what, rule


def test_every_rule_has_a_config_that_breaks_it() -> None:
    assert sorted(rule.__name__ for rule in registry.RULES) == sorted(BROKEN)


@pytest.mark.parametrize(
    "text",
    [
        "train: {epochs: 1, optimizer: Adam}",
        "evaluate: {split: train, thresholds: {recall: {min: 0.5}}}",
        "evaluate: {metrics: [top_2_accuracy, top_11_accuracy]}\nlabel: {key: tip, kind: multiclass, classes: 12}",
        "evaluate: {metrics: [mean_squared_error]}\nlabel: {key: tip, kind: regression}",
        "predict: {source: {kind: csv, path: '{SPAN:2}/v{VERSION}/*.csv'}, output: '../s/{SPAN}.csv', window: all}",
        "predict: {source: {kind: csv, path: 's3://new/*.csv'}, output: 'new/scored.tfrecord.gz', columns: []}",
        "gates: {rows: {min: 1, max_decrease: 0.5}, freshness: {max_days: 0, column: at, format: epoch_s}}",
        "gates: {rows: {max_decrease: 0.5, max_missing_spans: 0}, freshness: {max_days: 1}, drift: {earlier_spans: {}}}"
        "\ndata: {source: {kind: csv, path: {train: 'a/{YYYY}-{MM}-{DD}', test: 'b/{YYYY}-{MM}-{DD}'}}, window: 3}",
        "model: {kind: my.builder, options: {a: 1}}",
        "model: {kind: my.builder}\n" + features(photo="image, height: 8, width: 8"),
        "model: {kind: image, augment: {flip: both, rotate: 10}, backbone: {saved_model: net, pixels: [-1, 1]}}\n"
        + features(photo="image, height: 8, width: 8", size="numeric"),
        "model: {kind: dnn}\n" + features(a="crossed, keys: [b, c], hash_buckets: 9", fare="numeric"),
        features(lat="bucketized, buckets: 9", a="crossed, keys: [lat, b], hash_buckets: 9"),
        f"data: {{{SOURCE}, types: {{lat: float}}}}\n"
        + features(lat="bucketized, buckets: 9", a="crossed, keys: [lat, b], hash_buckets: 9"),
        f"data: {{{SOURCE}, types: {{tip: string}}}}\nlabel: {{key: tip, kind: binary, classes: ['no', 'yes']}}",
        f"data: {{{SOURCE}, types: {{tip: float}}}}\nlabel: {{key: tip, kind: regression}}",
        "data: {source: {kind: csv, path: '{YYYY}/{MM}/{DD}/*.csv'}, window: 30, spans: ['2026-01-01', '2026-01-01']}",
        "data: {source: {kind: csv, path: ['{SPAN:2}/v{VERSION}.csv', '{VERSION}-{SPAN}.csv']}, window: all, spans: 2}",
    ],
)
def test_a_config_that_keeps_the_rules_loads(tmp_path: Path, text: str) -> None:
    assert load(config(tmp_path, text)).pipeline.name == "taxi"


def test_rules_apply_between_the_sections_that_are_sound(tmp_path: Path) -> None:
    text = "train: {epochs: x}\nevaluate: {split: tset}"
    with pytest.raises(ConfigError) as caught:
        load(config(tmp_path, text))
    assert [problem.what.partition(":")[0] for problem in caught.value.problems] == ["train.epochs", "evaluate.split"]


@pytest.mark.parametrize(
    "pattern",
    ["new/*", "new/*.csv", "new/**", "new/**/*.csv", "*/a/*", "new/[ab]/*.csv", "new/?/**/s*.csv", "**/s.csv"],
)
def test_an_output_is_refused_where_glob_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = ["s.csv", "new/s.csv", "new/a/s.csv", "new/a/b/s.csv", "new/b/s.csv", "old/a/s.csv", "out/c/s.csv"]
    for output in outputs:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        Path(output).touch()
    text = complete(f"predict: {{source: {{kind: csv, path: '{pattern}'}}, output: OUT}}")
    refused = []
    for output in outputs:
        Path("c.yaml").write_text(text.replace("OUT", output), encoding="utf-8")
        try:
            load("c.yaml")
        except ConfigError as error:
            assert "is among the files of predict.source" in str(error)  # noqa: PT017
            refused.append(output)
    assert refused == [output for output in outputs if output in {*glob.glob(pattern, recursive=True)}]
