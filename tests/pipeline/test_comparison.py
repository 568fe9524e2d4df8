"""What `headrace compare` says of the code of runs, from what they keep."""

from __future__ import annotations

from pathlib import Path

from headrace.pipeline.cache_key import KeyParts
from headrace.pipeline.models.comparison import Side, side_by_side
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status
from headrace.pipeline.share.runs import PublicFolder, SharedRun


def side(folder: Path, **sources: dict[str, str] | None) -> Side:
    """A run with these components, each with its modules, or None if the run did not get to it."""
    folder.mkdir()
    for node, modules in sources.items():
        if modules is not None:
            KeyParts("key", "Executor", {}, modules, {}).write(folder, node)
    nodes = [NodeRecord(node, status=Status.DONE if sources[node] else Status.SKIPPED) for node in sources]
    record = RunRecord(folder.name, "trips", "c", 1.0, nodes=nodes)
    return Side(SharedRun(PublicFolder(folder, record), folder.name, 0), {})


def test_modules_of_a_component_that_a_stopped_run_did_not_get_to_are_not_compared(tmp_path: Path) -> None:
    whole = side(
        tmp_path / "whole", ExampleGen={"reader": "aa", "files": "bb"}, Trainer={"files": "bb", "layers": "cc"}
    )
    stopped = side(tmp_path / "stopped", ExampleGen={"reader": "dd", "files": "bb", "new": "ee"}, Trainer=None)
    assert side_by_side(["whole", "stopped"], [whole, stopped]).code == {
        "commit": (None, None),
        "module new": (None, "ee"),
        "module reader": ("aa", "dd"),
    }
