"""Snapshots of parsed examples: read back where the upstream is the same, else, or if damaged, written again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from messages import says
from numbered_shards import ids, pipeline, write_shards

from headrace.common.errors import TrainingError
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.memory import CacheChoice, choose_cache
from headrace.trainer.input.snapshot import KEEP, ORPHANED_AFTER, Snapshots
from headrace.trainer.input.sources import ExampleSources

SIZES = [1500, 700, 1]
TOTAL = sum(SIZES)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    folder = tmp_path / "graph"
    (folder / "transform_fn").mkdir(parents=True)
    (folder / "transform_fn" / "saved_model.pb").write_bytes(b"graph")
    return folder


@pytest.fixture
def shards(tmp_path: Path) -> list[str]:
    return write_shards(tmp_path / "shards", SIZES)


def opened(folder: Path, graph: Path, shards: list[str], **settings: object) -> tuple[InputSplit, str]:
    """The split, and what the snapshots say."""
    snapshots = Snapshots(folder, graph)
    return pipeline(snapshot=snapshots.files, **settings).open("train", shards), snapshots.words().partition(": ")[2]


def damage(place: Path) -> None:
    """Change one byte of a file, whose size stays."""
    (file,) = place.glob("*.arrow")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("cache", ["memory", "none"])
def test_second_run_reads_back_the_same_examples(tmp_path: Path, graph: Path, shards: list[str], cache: str) -> None:
    place = tmp_path / "kept"
    split, said = opened(place, graph, shards, cache=cache)
    assert said.startswith("train written in ")
    assert said.endswith(" s because there was none")
    first = ids(split.dataset)
    for shard in shards:  # the content of an example's file is compared, its time is not
        os.utime(shard, (1, 1))
    again, said = opened(place, graph, shards, cache=cache)
    assert said == "train read back"
    second, third = ids(again.dataset), ids(again.dataset)
    assert first == second
    assert sorted(second) == sorted(third) == list(range(TOTAL))
    assert second != third


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("disk", "…stay on disk in the snapshot, …`train.input.cache: disk`"),
        ("none", "…read from the snapshot in every epoch, …`train.input.cache: none`"),
    ],
)
def test_what_is_said_of_the_cache_fits_the_snapshot(tmp_path: Path, graph: Path, choice: Any, said: str) -> None:
    sources = ExampleSources(snapshots=Snapshots(tmp_path, graph))
    chosen = sources.cache(choose_cache(choice, []))
    assert chosen == CacheChoice("none", chosen.why)
    assert says(chosen.why, said)
    assert ExampleSources().cache(choose_cache(choice, [])) == choose_cache(choice, [])


def test_change_upstream_writes_again_and_says_what_changed(tmp_path: Path, graph: Path, shards: list[str]) -> None:
    place = tmp_path / "kept"
    opened(place, graph, shards)
    (graph / "transform_fn" / "saved_model.pb").write_bytes(b"other")
    assert opened(place, graph, shards)[1].endswith("because the transform graph changed")
    write_shards(tmp_path / "shards", [*SIZES[:2], 2])
    split, said = opened(place, graph, shards)
    assert said.endswith("because the examples changed")
    assert sorted(ids(split.dataset)) == list(range(TOTAL + 1))


def test_damaged_or_unfinished_snapshot_is_never_read(tmp_path: Path, graph: Path, shards: list[str]) -> None:
    place = tmp_path / "kept"
    opened(place, graph, shards)
    (snapshot,) = place.iterdir()
    damage(snapshot)
    split, said = opened(place, graph, shards)
    assert said.endswith("because the one there was damaged")
    assert sorted(ids(split.dataset)) == list(range(TOTAL))
    (snapshot / "snapshot.json").unlink()
    assert opened(place, graph, shards)[1].endswith("because the one there was damaged")
    assert opened(place, graph, shards)[1] == "train read back"


def test_old_snapshots_and_abandoned_ones_are_removed(tmp_path: Path, graph: Path, shards: list[str]) -> None:
    place = tmp_path / "kept"
    for name in ("left", "fresh"):
        (place / f".writing-{name}").mkdir(parents=True)
    os.utime(place / ".writing-left", (time.time() - ORPHANED_AFTER - 60,) * 2)
    for content in range(KEEP + 2):
        (graph / "transform_fn" / "saved_model.pb").write_bytes(b"%d" % content)
        opened(place, graph, shards)
    assert len(list(place.glob("train-*"))) == KEEP
    assert [path.name for path in place.glob(".writing-*")] == [".writing-fresh"]
    assert opened(place, graph, shards)[1] == "train read back"


def test_folder_that_cannot_be_written_is_named(tmp_path: Path, graph: Path, shards: list[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TrainingError, match=r"train.input.snapshot: cannot write to .*file/inside: Not a directory"):
        opened(tmp_path / "file" / "inside", graph, shards)
