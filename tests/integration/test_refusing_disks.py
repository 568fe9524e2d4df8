"""Verbs whose output is on a read-only or a full disk: one sentence with the path, nothing half-written, and all of it
works once there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import Finished, headrace
from mounted import Disk, mounted
from parcels import parcels_config, write_parcels

pytestmark = pytest.mark.slow

CONFIG = parcels_config("distance: {column: numeric}")
DEPLOY = "deploy: {push: serving, canary: null}\n"
READ_ONLY, FULL = "Read-only file system", "No space left on device"
SECOND = ("--set", "train.epochs=2")
NEW = ("--set", "train.epochs=3")
"""Options that make it another model: of the run before the disk refuses, and of the run that it refuses."""
VERBS = {
    "run": ("run", "parcels.yaml", *NEW),
    "init": ("init", "parcels.csv", "--label", "late", "--output", "new.yaml"),
    "report": ("report", "parcels.yaml"),
    "predict": ("predict", "parcels.yaml", "--input", "many.csv", "--output", "scored.csv"),
    "rollback": ("rollback", "parcels.yaml"),
    "promote": ("promote", "parcels.yaml", "--set", "deploy.approval=manual"),
    "compile": ("compile", "parcels.yaml", "--set", "kubeflow.image=registry.example/headrace:1", "-o", "kfp.yaml"),
    "share": ("share", "parcels.yaml", "--output", "shared"),
}
NAMED = {
    "run": "/disk/",
    "init": "new.yaml:",
    "report": "report.html:",
    "predict": "scored.csv",
    "rollback": "/disk/",
    "promote": "/disk/",
    "compile": "kfp.yaml:",
    "share": "shared",
}
"""What each line of a verb names that says why."""


@dataclass(frozen=True)
class Story:
    """What each verb did on a disk that refuses, and in the same order once there was room."""

    disk: Path
    refused: dict[str, dict[str, Finished]]
    changed: dict[str, set[str]]
    """By the way of refusing, the files that appeared, vanished or changed."""
    after: dict[str, Finished]
    versions: list[str]


def state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def story(new_folder: Callable[[str], Path]) -> Iterator[Story]:
    with mounted(new_folder("refusing") / "disk", "200m") as disk:
        yield _story(disk)


def _story(disk: Disk) -> Story:
    folder = disk.folder
    write_parcels(folder / "parcels.csv", 400)
    write_parcels(folder / "many.csv", 5000)
    (folder / "parcels.yaml").write_text(CONFIG + DEPLOY)
    for options in ((), SECOND):
        done = headrace(folder, "run", "parcels.yaml", *options)
        assert done.code == 0, done.out + done.err
    waiting = headrace(folder, "run", "parcels.yaml", *NEW, "--set", "train.seed=5", "--set", "deploy.approval=manual")
    assert "waits for approval" in waiting.out, waiting.out + waiting.err
    before = state(folder)
    refused, changed = dict[str, dict[str, Finished]](), dict[str, set[str]]()
    for how in (READ_ONLY, FULL):
        filling = disk.fill() if how == FULL else None
        if filling is None:
            disk.remount("ro")
        refused[how] = {verb: headrace(folder, *words) for verb, words in VERBS.items()}
        refused[how]["validate"] = headrace(folder, "validate", "parcels.yaml")
        refused[how]["models"] = headrace(folder, "models", "parcels.yaml")
        disk.remount("rw")
        if filling is not None:
            filling.unlink()
        now = state(folder)
        changed[how] = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
        before = now
    after = {verb: headrace(folder, *words) for verb, words in VERBS.items()}
    versions = [path.name for path in (folder / "serving").iterdir()]
    return Story(folder, refused, changed, after, sorted(versions))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("how", [READ_ONLY, FULL])
def test_verb_says_in_a_sentence_what_cannot_be_written_and_why(story: Story, how: str, verb: str) -> None:
    done = story.refused[how][verb]
    said = done.out + done.err
    assert done.code == 1, said
    assert "traceback" not in said.lower()
    assert ".partial" not in said
    assert ".work-" not in said
    lines = [line for line in said.splitlines() if how in line]
    assert lines, said
    assert all(NAMED[verb] in line for line in lines), said
    assert len(lines) == len(set(lines))
    assert verb != "run" or "pipeline.root" in said, said


@pytest.mark.parametrize("how", [READ_ONLY, FULL])
def test_nothing_is_left_half_written(story: Story, how: str) -> None:
    """A full disk takes what needs no room: changes of ML Metadata's in place, and the empty files of locks."""
    assert {name for name in story.changed[how] if not name.endswith((".lock", "metadata.sqlite"))} == set()
    assert not story.changed[READ_ONLY]


@pytest.mark.parametrize("how", [READ_ONLY, FULL])
def test_verbs_that_only_read_do_so(story: Story, how: str) -> None:
    validated, models = story.refused[how]["validate"], story.refused[how]["models"]
    assert validated.code == models.code == 0, validated.err + models.err
    assert "is valid" in validated.out
    assert ("pipeline.root" in validated.err) is (how == READ_ONLY)  # a folder on a full disk may be written to
    assert models.out.count("yes") == 2


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_works_once_there_is_room(story: Story, verb: str) -> None:
    done = story.after[verb]
    assert done.code == 0, done.out + done.err


def test_no_version_was_lost_or_made_twice(story: Story) -> None:
    """Two runs before, the run that was refused, a rollback and a promotion."""
    assert len(story.versions) == 5
    assert all(name.isdecimal() for name in story.versions)
