"""What a new run does about runs that were killed."""

from pathlib import Path

import pytest

from headrace.common.durable import replacing
from headrace.pipeline.folders import Folders
from headrace.pipeline.local.metadata import Metadata
from headrace.pipeline.local.runner import clear_killed_runs
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status

KIND = "tfx.components.transform.component.Transform"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(tmp_path)
    for path in (made.artifacts, made.runs, made.scratch / "7"):
        path.mkdir(parents=True)
    return made


def test_half_written_outputs_go_and_those_of_other_runs_stay(folders: Folders) -> None:
    killed = Metadata(folders.metadata, "p", "r-2")
    left = killed.begin("Transform", KIND, {})
    for run_id in ("r-1", "r-2"):
        (folders.artifacts / "Transform" / "graph" / run_id).mkdir(parents=True)
    clear_killed_runs(folders, Metadata(folders.metadata, "p", "r-3"))
    assert [path.name for path in (folders.artifacts / "Transform" / "graph").iterdir()] == ["r-1"]
    assert not folders.scratch.exists()
    assert left not in [execution for execution, _, _ in killed.unfinished()]


def test_record_of_a_killed_run_says_interrupted_and_a_damaged_one_is_left(folders: Folders) -> None:
    for run_id in ("r-1", "r-2"):
        (folders.runs / run_id).mkdir()
    nodes = [NodeRecord("Spans", status=Status.DONE), NodeRecord("ExampleGen", status=Status.RUNNING)]
    RunRecord("r-1", "p", "p.yaml", 1.0, nodes=nodes).write(folders.runs / "r-1")
    (folders.runs / "r-2" / "run.json").write_text("{")
    clear_killed_runs(folders, Metadata(folders.metadata, "p", "r-3"))
    record = RunRecord.read(folders.runs / "r-1")
    assert record.status is Status.INTERRUPTED
    assert [node.status for node in record.nodes] == [Status.DONE, Status.INTERRUPTED]
    assert (folders.runs / "r-2" / "run.json").read_text() == "{"


def test_files_that_were_being_written_go_unless_a_process_still_writes_them(folders: Folders) -> None:
    (folders.runs / "r-1").mkdir()
    (folders.spans / "key" / "statistics").mkdir(parents=True)
    left = [
        folders.home / ".blessed.json.x.partial",
        folders.runs / "r-1" / ".report.html.x.partial",
        folders.spans / "key" / "statistics" / ".train.sums.x.partial",
    ]
    for path in left:
        path.touch()
    with replacing(folders.runs / "r-1" / "report.html") as partial:
        clear_killed_runs(folders, Metadata(folders.metadata, "p", "r-3"))
        assert partial.exists()
    assert not any(path.exists() for path in left)
