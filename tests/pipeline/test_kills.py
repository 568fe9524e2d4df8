"""Records that a run keeps, killed before each change to the file system: the old text or the new one, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dying import deaths

from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.trigger.decision import TrainingRecord
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status


def _run(folder: Path, word: str) -> None:
    RunRecord("1", "trips", "trips.yaml", 1.0, nodes=[NodeRecord("Trainer")], ended=word).write(folder)


def _trained(folder: Path, word: str) -> None:
    TrainingRecord(passed=(word, "")).write(folder / "trained.json")


def _registry(folder: Path, word: str) -> None:
    Registry(models=(Entry(uri="/a", blessed_at=word),)).write(folder / "blessed.json")


CASES: dict[str, tuple[Callable[[Path, str], None], Callable[[Path], str | None]]] = {
    "run.json": (_run, lambda folder: RunRecord.read(folder).ended),
    "trained.json": (_trained, lambda folder: (TrainingRecord.read(folder / "trained.json").passed or [""])[0]),
    "blessed.json": (_registry, lambda folder: Registry.read(folder / "blessed.json").models[0].blessed_at),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_record_is_the_old_one_or_the_new_one(tmp_path: Path, name: str) -> None:
    write, read = CASES[name]
    write(tmp_path, "old")
    found = []
    for _ in deaths(lambda: write(tmp_path, "new"), tmp_path):
        found.append(read(tmp_path) or "")
        write(tmp_path, "old")
        assert not list(tmp_path.rglob("*.partial"))
    assert found == sorted(found, reverse=True)
    assert set(found) == {"old", "new"}
    print(f"{len(found)} kills")


@pytest.mark.slow
def test_run_that_was_killed_before_its_first_record_has_none(tmp_path: Path) -> None:
    ends = []
    for _ in deaths(lambda: _run(tmp_path, "new"), tmp_path):
        ends.append((tmp_path / "run.json").exists())
        if ends[-1]:
            assert RunRecord.read(tmp_path).status is Status.RUNNING
            (tmp_path / "run.json").unlink()
    assert sorted(set(ends)) == [False, True]
