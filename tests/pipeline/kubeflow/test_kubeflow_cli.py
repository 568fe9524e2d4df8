"""`headrace compile` and `headrace verify` as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from headrace.pipeline.cli import cli

CONFIG = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: trips.csv}}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "trips.yaml").write_text(CONFIG)
    (tmp_path / "trips.csv").write_text("fare,tip\n" + "".join(f"{row}.5,{row % 2}\n" for row in range(40)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_compile_writes_the_file_and_says_where(here: Path) -> None:
    arguments = ["compile", "trips.yaml", "--set", "kubeflow.image=registry.example/headrace:1", "-o", "out.yaml"]
    done = CliRunner().invoke(cli, arguments)
    assert (done.exit_code, done.stdout) == (0, "out.yaml\n")
    assert "`evaluate.thresholds` is empty" in done.stderr
    assert next(yaml.safe_load_all((here / "out.yaml").read_text()))["pipelineInfo"]["name"] == "trips"


def test_compile_without_an_image_says_what_is_missing() -> None:
    done = CliRunner().invoke(cli, ["compile", "trips.yaml"])
    assert done.exit_code == 1
    assert done.output.startswith("trips.yaml:1: kubeflow.image: name the image ")


def test_verify_refuses_a_folder_that_is_not_empty(here: Path) -> None:
    done = CliRunner().invoke(cli, ["verify", "trips.yaml", "--keep", str(here)])
    assert done.exit_code == 1
    assert "is not empty" in done.output
