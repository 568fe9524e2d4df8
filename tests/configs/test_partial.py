"""Rules apply to the valid part of sections with mistakes, and report nothing that only follows from a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load, load_with_locations
from headrace.configs.loading.partial import valid_sections
from headrace.configs.rules import on_kubeflow
from headrace.configs.schema.section import RefusedSettingError

CONFIG = """\
pipeline: {name: taxi}
data: {source: {kind: csv, path: a.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}, area: {column: vocabulary}}
"""


def settings(folder: Path, text: str) -> list[str]:
    """The settings with mistakes, in the order of the file."""
    file = folder / "c.yaml"
    sections = {line.partition(":")[0]: line for line in (CONFIG + text).splitlines()}
    file.write_text("\n".join(sections.values()) + "\n")
    with pytest.raises(ConfigError) as caught:
        load(file)
    return [problem.what.partition(": ")[0] for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train: {epochs: x, optimizer: addam}", ["train.epochs", "train.optimizer"]),
        ("train: {input: {threads: 0, own_shards: true}}", ["train.input.threads", "train.input.own_shards"]),
        (
            "data: {source: {kind: csv, path: a.csv}, on_anomaly: no, splits: {trian: 8, eval: 1}}",
            ["data.on_anomaly", "data.splits"],
        ),
        (
            "data: {source: {kind: csv, path: 7}, types: {area: bytes}}",
            ["data.source.path", "data.types.area"],
        ),
        (
            "features: {fare: {column: numric}, area: {column: vocabulary},"
            " x: {column: crossed, keys: [area, area], hash_buckets: 9}}",
            ["features.fare.column", "features.x.keys[1]"],
        ),
        ("kubeflow: {image: 7, components: {Trainr: {}}}", ["kubeflow.image", "kubeflow.components.Trainr"]),
        (
            "kubeflow: {defaults: {cpu: x, env: {DB_PASSWORD: a}}}",
            ["kubeflow.defaults.cpu", "kubeflow.defaults.env.DB_PASSWORD"],
        ),
        ("evaluate: {thresholds: {auc: {min: x}, recall: {min: 7}}}", ["evaluate.thresholds.auc.min"]),
    ],
)
def test_a_mistake_hides_no_other_of_its_section(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert settings(tmp_path, text)[: len(expected)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "features: {fare: {column: numric}, x: {column: crossed, keys: [fare, area], hash_buckets: 9}}",
        "features: {fare: {column: numric}}\nmodel: {kind: image}",
        "features: {t: {column: text, separator: 7}}\nlabel: {key: w, kind: next_word, text: t}\nmodel: {kind: text}",
        "kubeflow: {storage: reference, volum: {claim: a}}",
        "kubeflow: {storage: reference, volume: {clam: a}}",
        "train: {steps_per_epoch: x, input: {service: {address: 'grpc://a:1', sharding: off}}}",
        "train: {strategy: gpu, input: {own_shards: true}, steps_per_epoch: 3}",
        "data: {source: {kind: csv, path: a.csv}, splits: {train: 8, eval: x}}\nevaluate: {split: test}",
        "model: {kind: dnnn, hidden: [3]}",
        "label: {key: tip, kind: binry}\nevaluate: {metrics: [accuracy]}",
        "tune: {parameters: {train.batch_size: {choices: [1, 2]}}}\ntrain: {batch_size: x}",
        "beam: {runner: flnk, options: {flink_master: 'a:1'}}",
    ],
)
def test_what_only_follows_from_a_mistake_is_not_reported(tmp_path: Path, text: str) -> None:
    assert len(settings(tmp_path, text)) == 1


def test_a_refused_setting_is_absent_and_says_so_when_it_is_read() -> None:
    written = {"epochs": "x", "batch_size": 7, "input": {"threads": 0, "cache": "disk"}}
    train: Any = valid_sections({"train": written})["train"]
    assert (train.batch_size, train.input.cache, train.optimizer) == (7, "disk", "adam")
    for section, name in ((train, "epochs"), (train.input, "threads")):
        with pytest.raises(RefusedSettingError):
            getattr(section, name, None)


def test_rules_of_kubeflow_are_reported_along_with_all_others(tmp_path: Path) -> None:
    predict = "predict: {source: {kind: csv, path: new.csv}, output: ../scored.csv}\n"
    (tmp_path / "c.yaml").write_text(
        CONFIG + "train: {strategy: multi_worker, epochs: x}\ndeploy: {push: /srv}\n" + predict
    )
    with pytest.raises(ConfigError) as caught:
        load_with_locations(tmp_path / "c.yaml", rules=on_kubeflow.RULES)
    places = [str(problem).removeprefix(f"{tmp_path}/").split(": ")[:2] for problem in caught.value.problems]
    assert places == [
        ["c.yaml:1", "kubeflow.image"],
        ["c.yaml:5", "train.strategy"],
        ["c.yaml:5", "train.epochs"],
        ["c.yaml:6", "deploy.push"],
        ["c.yaml:7", "predict.output"],
    ]
