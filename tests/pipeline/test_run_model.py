"""The model of a run in a pipeline's folder that was moved or copied, and whose files may have changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.components.contents import CONTENTS
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.run import Run


def trained(home: Path) -> Path:
    """The folder of a run whose model was not blessed."""
    model, folder = home / "artifacts" / "Trainer" / "model" / "r1", home / "runs" / "r1"
    for each in (model / "Format-Serving", folder):
        each.mkdir(parents=True)
    (model / "Format-Serving" / "saved_model.pb").write_bytes(b"graph")
    outputs = {"model": ArtifactRecord("Model", str(model), {CONTENTS: checksum(model)})}
    nodes = [NodeRecord("Trainer", status=Status.DONE, outputs=outputs)]
    RunRecord("r1", home.name, "c.yaml", started=1.0, status=Status.DONE, nodes=nodes).write(folder)
    return folder


@pytest.mark.parametrize("place", ["own", "moved", "copied"])
def test_damaged_model_is_refused_wherever_the_pipelines_folder_is(tmp_path: Path, place: str) -> None:
    folder, now = trained(tmp_path / "runs" / "trips"), tmp_path / "artifacts" / "trips"
    if place != "own":
        (shutil.copytree if place == "copied" else shutil.move)(folder.parents[1], now)
        folder = now / "runs" / "r1"
    run = Run.read(folder)
    assert str(tmp_path) in repr(run.model())
    Path(run.artifact("Trainer").uri, "Format-Serving", "saved_model.pb").write_bytes(b"other")
    with pytest.raises(RunError, match="artifacts/Trainer/model/r1 is damaged"):
        run.model()
