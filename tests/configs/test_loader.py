"""Every mistake in a config is told at once, at its line, in plain words, with what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.configs.errors import ConfigError
from headrace.configs.json_schema import json_schema, tags
from headrace.configs.loader import load, load_with_places
from headrace.configs.suggest import listed
from headrace.configs.train import TrainConfig
from headrace.configs.words import either

SECTIONS = {
    "pipeline": "pipeline: {name: taxi}",
    "data": "data: {source: {kind: csv, path: a.csv}}",
    "label": "label: {key: tip, kind: binary}",
    "features": "features: {fare: {column: numeric}}",
}
KINDS = either(tags(json_schema()["properties"]["features"]["additionalProperties"]))
MODELS = either(tags(json_schema()["properties"]["model"]))
DOTTED = "a dotted path, such as my_package.my_module.my_function"
SECTION_NAMES = "pipeline, data, label, features, model, train, tune, evaluate, deploy, beam, kubeflow, schedule"
TRAIN, TRAIN_8 = listed(TrainConfig.model_fields, 16), listed(TrainConfig.model_fields, 8)


def told(folder: Path, text: str, overrides: tuple[str, ...] = ()) -> list[str]:
    """The mistakes of a config whose first lines are `text`, completed by the sections that `text` leaves out."""
    file = folder / "c.yaml"
    rest = [section for name, section in SECTIONS.items() if f"{name}:" not in text]
    file.write_text("\n".join([text, *rest]) + "\n")
    with pytest.raises(ConfigError) as caught:
        load(file, overrides=overrides)
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: {epochs: five}", 'train.epochs: found the text "five"; allowed: a whole number above 0'),
        ("train: {epochs: 0}", "train.epochs: found the number 0; allowed: a whole number above 0"),
        (
            "train: {epochs: 1e1}",
            "train.epochs: found the number 1e1; allowed: a whole number above 0; did you mean 10?",
        ),
        (
            "train: {epochs: '5'}",
            'train.epochs: found the text "5"; allowed: a whole number above 0; remove the quotes',
        ),
        (
            "train: {epochs: 1_000}",
            'train.epochs: found the text "1_000"; allowed: a whole number above 0; did you mean 1000?',
        ),
        (
            "train: {epochs: 007}",
            'train.epochs: found the text "007"; allowed: a whole number above 0; did you mean 7?',
        ),
        (
            "train: {epochs: }",
            "train.epochs: found nothing (null); allowed: a whole number above 0; remove the line to get the default",
        ),
        (
            "train: {learning_rate: .inf}",
            "train.learning_rate: .inf is no finite number; only finite ones are allowed",
        ),
        (
            "train: {seed: 99999999999999999999}",
            "train.seed: the number 99999999999999999999 does not fit in 64 bits; if it is meant as a text, put quotes "
            "around it",
        ),
        (
            "train: {seed: 9223372036854775808}",  # the first that int64 does not hold
            "train.seed: the number 9223372036854775808 does not fit in 64 bits; if it is meant as a text, put quotes "
            "around it",
        ),
        ("train: {epoch: 3}", f'train.epoch: no such setting; train has: {TRAIN}; did you mean "epochs"?'),
        ("train: {batchSize: 3}", f'train.batchSize: no such setting; train has: {TRAIN}; did you mean "batch_size"?'),
        (
            "train: epochs:5",
            f'train: found the text "epochs:5"; allowed: settings ({TRAIN_8}); put a space after the colon',
        ),
        ("train: [1]", f"train: found a list of 1; allowed: settings ({TRAIN_8})"),
        ("trian: {}", f'trian: no such setting; a config has: {SECTION_NAMES}; did you mean "train"?'),
        ("epochs: 5", f'epochs: no such setting; a config has: {SECTION_NAMES}; did you mean "train.epochs"?'),
        (
            "train:\n  input:",
            "train.input: found nothing (null); allowed: settings (cache, shuffle, deterministic, threads, prefetch, "
            "length_buckets, read_batch, open_files and 4 more); write its settings under it, or remove the line",
        ),
        (
            "train: {early_stopping: false}",
            "train.early_stopping: found false; allowed: settings (patience, min_delta), or null",
        ),
        (
            "pipeline: {name: 2024}",
            "pipeline.name: found the number 2024; allowed: lower-case letters, digits and dashes, a dash neither "
            'first nor last, at most 63 characters; as a text it needs quotes: "2024"',
        ),
        (
            "train: {input: {threads: 0}}",
            "train.input.threads: found the number 0; allowed: auto, or a whole number above 0",
        ),
        (
            "train: {profile: {batches: 50}}",
            "train.profile.batches: found the number 50; allowed: a list of at least 2, each a whole number above 0",
        ),
        (
            'train: {input: {service: "localhost:50"}}',
            'train.input.service: found the text "localhost:50"; allowed: an address such as grpc://127.0.0.1:5050, or '
            "settings (address, sharding, coordinated, timeout), or null",
        ),
        (
            "label: {kind: bin, key: tip}",
            'label.kind: found the text "bin"; allowed: binary, multiclass, regression or next_word; did you mean '
            '"binary"?',
        ),
        ("label: {kind: binary}", "label.key: missing; needed is a non-empty text (The data column)"),
        (
            "label: {kye: tip, kind: binary}",
            'label.kye: no such setting; label has: key, kind, classes, text; did you mean "key"?',
        ),
        (
            "label: {key: tip, kind: multiclass}",
            "label: a multiclass label needs `classes`: a list of its values, or a count n for integers 0 to n-1",
        ),
        (
            "data: {source: {path: x}}",
            "data.source.kind: missing; allowed: csv, parquet, jsonl, tfrecord, images, "
            "text, sql, bigquery, tfds or arrays",
        ),
        (
            "data: {source: {kind: csv, path: []}}",
            "data.source.path: found an empty list; allowed: a non-empty text, or a list of at least 1, each a "
            "non-empty text",
        ),
        (
            "data: {source: {kind: csv, path: x, delimiter: \\t}}",
            'data.source.delimiter: found the text "\\\\t"; allowed: one character; an escape needs double quotes: '
            '"\\t"',
        ),
        (
            "data: {source: {kind: csv, path: x, quote: ','}}",
            "data.source: delimiter and quote are both ','; they must differ",
        ),
        (
            "data: {source: {kind: csv, path: x}, on_anomaly: no}",
            'data.on_anomaly: found the text "no"; allowed: stop or warn',
        ),
        (
            "features: {fare: {column: numric}}",
            f'features.fare.column: found the text "numric"; allowed: {KINDS}; did you mean "numeric"?',
        ),
        ("features: {fare: {hash_buckets: 9, num_buckets: 1}}", f"features.fare.column: missing; allowed: {KINDS}"),
        (
            "features: {fare: {boundaries: [1]}}",
            f'features.fare.column: missing; allowed: {KINDS}; did you mean "column: bucketized"?',
        ),
        (
            "features: {fare: {kind: numeric}}",
            f'features.fare.column: missing; allowed: {KINDS}; did you mean "column: numeric" where "kind: numeric" '
            "stands?",
        ),
        (
            "features: {fare: numeric}",
            f'features.fare: found the text "numeric"; allowed: settings with column: {KINDS}; did you mean '
            "{column: numeric}?",
        ),
        (
            "features: {fare: {column: numeric, normalise: log}}",
            "features.fare.normalise: no such setting; a numeric feature has: key, column, normalize, missing; did you "
            'mean "normalize"?',
        ),
        (
            "features: {fare: {column: numeric, buckets: 3}}",
            "features.fare.buckets: no such setting; a numeric feature has: key, column, normalize, missing; `buckets` "
            "is for: bucketized",
        ),
        (
            "features: {fare: {column: numeric, missing: men}}",
            'features.fare.missing: found the text "men"; allowed: mean, or a number; did you mean "mean"?',
        ),
        (
            "features: {numeric: {column: identity, num_buckets: 3, deep: yes}}",
            'features.numeric.deep: found the text "yes"; allowed: true or false; did you mean true?',
        ),
        (
            "features: {}",
            "features: found an empty mapping; allowed: names (at least 1), each with settings with column: " + KINDS,
        ),
        (
            "data: {source: {kind: csv, path: x, decode: true}}",
            "data.source.decode: no such setting; a csv source has: path, kind, delimiter, quote, column_names, "
            "null_values; `decode` is for: images",
        ),
        (
            "model: {kind: dnn, options: {a: 1}}",
            "model.options: no such setting; a dnn model has: hidden, activation, dropout, embedding, kind; `options` "
            "is for: the dotted path of your own builder",
        ),
        (
            "model: {hiden: [3]}",
            "model.hiden: no such setting; a wide_and_deep model has: hidden, activation, dropout, embedding, kind; "
            'did you mean "hidden"?',
        ),
        (
            "model: {kind: my.build, optionz: {}}",
            "model.optionz: no such setting; model has: hidden, activation, dropout, embedding, kind, options; did you "
            'mean "options"?',
        ),
        (
            "model: {kind: image, augment: {flip: sideways}}",
            'model.augment.flip: found the text "sideways"; allowed: horizontal, vertical or both, or null',
        ),
        (
            "model: {kind: image, backbone: {saved_model: net}, filters: [8]}",
            "model: a `backbone` takes the place of the convolutions; remove `filters`",
        ),
        ("model: {kind: [dnn]}", f"model.kind: found a list of 1; allowed: {MODELS}"),
        ("model: {kind: DNN}", f'model.kind: found the text "DNN"; allowed: {MODELS}; did you mean "dnn"?'),
        ("model: {kind: my-own.build}", f'model.kind: found the text "my-own.build"; allowed: {DOTTED}'),
        (
            "model: dnn",
            f'model: found the text "dnn"; allowed: settings with kind: {MODELS}; did you mean {{kind: dnn}}?',
        ),
        (
            "model:",
            f"model: found nothing (null); allowed: settings with kind: {MODELS}; write its settings under it, or "
            "remove the line",
        ),
        (
            "model: {hidden: 128}",
            "model.hidden: found the number 128; allowed: a list, each a whole number above 0; did you mean [128]?",
        ),
        (
            "model: {hidden: [128, -1]}",
            "model.hidden[1]: found the number -1; allowed: a whole number above 0",
        ),
        ("model: {dropout: 1.0}", "model.dropout: found the number 1.0; allowed: a number of at least 0 and below 1"),
        (
            "evaluate: {slices: [a, [b, 3]]}",
            'evaluate.slices[1][1]: found the number 3; allowed: a non-empty text; as a text it needs quotes: "3"',
        ),
        ("evaluate: {thresholds: {auc: {min: 0.9, max: 0.8}}}", "evaluate.thresholds.auc: min: 0.9 is above max: 0.8"),
        (
            "evaluate: {thresholds: {auc: 0.8}}",
            "evaluate.thresholds.auc: found the number 0.8; allowed: settings (min, max, not_worse_than_baseline_by); "
            "did you mean {min: 0.8}?",
        ),
        (
            "beam: {args: [--runner=PortableRunner, --job_endpoint, 'jobs:8099', --no_auth, --parallelism=2]}",
            "beam.args: this is beam.runner and beam.options now; write `beam: {runner: portable, workers: 2, "
            "options: {job_endpoint: jobs:8099, no_auth: true}}`",
        ),
        (
            "beam: {args: [--s3_secret_access_key=abc]}",
            "beam.args: this is beam.runner and beam.options now; write `beam: {options: {s3_secret_access_key: ...}}`",
        ),
        ("deploy: {push: ''}", 'deploy.push: found the text ""; allowed: a non-empty text, or null'),
    ],
)
def test_one_mistake_is_told_in_plain_words(tmp_path: Path, text: str, message: str) -> None:
    line = text.count("\n") + 1
    assert told(tmp_path, text) == [f"c.yaml:{line}: {message}"]


def test_all_mistakes_are_told_at_once_in_file_order(tmp_path: Path) -> None:
    text = """\
trian: {}
label:
  kind: bin
  key: tip
train:
  epochs: 3
  epochs: x
features:
  fare:
    column: numric
  tip: {column: numeric}
evaluate: {metrics: [auc], split: valid}
"""
    assert [line.split(": ")[0] + " " + line.split(": ")[1] for line in told(tmp_path, text)] == [
        "c.yaml:1 trian",
        "c.yaml:3 label.kind",
        "c.yaml:7 train.epochs",
        "c.yaml:7 train.epochs",
        "c.yaml:10 features.fare.column",
        "c.yaml:12 evaluate.split",
    ]


def test_a_value_of_several_lines_is_told_at_the_line_of_the_item(tmp_path: Path) -> None:
    assert told(tmp_path, "model:\n  hidden:\n    - 1\n    - x")[0].startswith("c.yaml:4: model.hidden[1]: ")


def test_the_example_loads_with_the_place_of_each_setting() -> None:
    loaded = load_with_places("configs/taxi.yaml")
    lines = Path("configs/taxi.yaml").read_text(encoding="utf-8").splitlines()
    assert loaded.config.label.key == "big_tipper"
    for where, text in [
        (("label", "key"), "label: {key"),
        (("features", "company"), "  company:"),
        (("features", "pickup", "keys", 1), "  pickup:"),
        (("evaluate", "thresholds", "auc", "min"), "    auc:"),
        (("train", "seed"), "train:"),
    ]:
        line = next(number for number, line in enumerate(lines, 1) if line.startswith(text))
        assert loaded.place(where) == f"configs/taxi.yaml:{line}"


def test_a_missing_file_names_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match=r'^configs/taxy.yaml: no such file; did you mean "taxi.yaml"\?$'):
        load("configs/taxy.yaml")


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"no such file; there is no folder {tmp_path}/gone either"):
        load(tmp_path / "gone" / "c.yaml")


def test_a_folder_names_the_configs_in_it() -> None:
    with pytest.raises(ConfigError, match=r"^configs: a folder, not a config file; configs holds: .*taxi.yaml"):
        load("configs")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: the file is empty; a config is a mapping of sections"),
        (b"# only a comment\n", ":1: the file is empty; a config is a mapping of sections"),
        (b"\n- a\n", ":2: found a list of 1; a config is a mapping of sections"),
        (b"label:x\n", "schedule; is the space after a colon missing?"),
        (b"a: 1\nb: \xe9\n", ":2:4: the byte 0xE9 is not UTF-8; save the file as UTF-8"),
        ("a: 1".encode("utf-16"), ":1:1: the file is UTF-16; save it as UTF-8"),
        (b"a: 1\nb: x\x07\n", ":2:5: the character U+0007 cannot stand in YAML"),
    ],
)
def test_what_is_no_config_at_all_is_told_with_its_place(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert len(caught.value.problems) == 1
    assert message in str(caught.value)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(SECTIONS.values()).encode())
    assert load(file).label.key == "tip"
