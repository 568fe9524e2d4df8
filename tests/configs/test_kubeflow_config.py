"""`kubeflow:` settings over defaults, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.errors import ConfigError
from configs.loader import load

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""


def kubeflow(tmp_path: Path, text: str) -> object:
    path = tmp_path / "c.yaml"
    path.write_text(f"{CONFIG}kubeflow: {text}\n")
    return load(path).kubeflow


def test_a_components_settings_replace_the_defaults_one_by_one(tmp_path: Path) -> None:
    found = kubeflow(tmp_path, "{defaults: {cpu: 1, memory: 2G, labels: {a: b}}, components: {Trainer: {memory: 8G}}}")
    assert (found.settings("Trainer").cpu, found.settings("Trainer").memory) == (1, "8G")
    assert found.settings("Trainer").labels == {"a": "b"}
    assert found.settings("Spans").memory == "2G"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{pipeline_root: hdfs://a/b}", "a URI such as s3://bucket/folder"),
        ("{defaults: {timeout: 90}}", "a time such as 30s, 10m, 2h or 1d"),
        ("{defaults: {memory: lots}}", "a size such as 4G or 512Mi"),
    ],
)
def test_a_mistake_is_told_with_the_way_out(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        kubeflow(tmp_path, text)
    assert message in str(caught.value)
