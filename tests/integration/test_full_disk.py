"""Runs on a disk that is really full: a file system in memory, which is then made larger."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import Finished, headrace, versions
from mounted import Disk, mounted
from parcels import write_parcels

from headrace.common.errors import RunError
from headrace.pipeline.local.child import describe
from headrace.pipeline.local.metadata import Metadata
from headrace.pipeline.local.store import DISK_FULL, store_message

CONFIG = """\
pipeline: {name: parcels, root: disk}
data: {source: {kind: csv, path: parcels.csv}}
label: {key: late, kind: binary}
features:
  distance: {column: numeric}
model: {kind: dnn, hidden: [4]}
train: {epochs: 1, batch_size: 64}
evaluate: {better_than_constant: false}
deploy: {push: serving}
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk", "1m") as disk:
        yield disk


def test_metadata_on_a_full_disk_says_so_and_is_whole_when_there_is_room_again(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    path = disk.folder / "metadata.sqlite"
    metadata = Metadata(path, "parcels", "first")
    metadata.begin("Spans", "Spans", {})
    filling = disk.fill()
    with pytest.raises(RunError, match=rf"{path} .*{DISK_FULL}.*\n.*pipeline\.root") as caught:
        metadata.begin("Trainer", "Trainer", {"config": "x" * 30000})
    assert "INSERT" not in str(caught.value)
    assert not caplog.records
    filling.unlink()
    again = Metadata(path, "parcels", "second")
    assert ("Spans", "first") in [(node, run) for _, node, run in again.unfinished()]
    again.begin("Trainer", "Trainer", {"config": "x" * 30000})


def test_transaction_that_sqlite_rolled_back_is_put_down_to_the_disk(tmp_path: Path) -> None:
    said = "Error when executing query: cannot commit - no transaction is active query: COMMIT;"
    assert store_message(RuntimeError(said), tmp_path) == (
        f"{DISK_FULL}, or a write to it failed (cannot commit - no transaction is active)"
    )


def test_new_metadata_on_a_full_disk_is_not_called_damaged(disk: Disk) -> None:
    disk.fill()
    with pytest.raises(RunError, match=DISK_FULL):
        Metadata(disk.folder / "metadata.sqlite", "parcels", "first")


def test_transaction_that_the_full_disk_ended_is_not_taken_for_another_error(disk: Disk) -> None:
    metadata = Metadata(disk.folder / "metadata.sqlite", "parcels", "first")
    disk.fill()
    for _ in range(3):
        with pytest.raises(RunError, match=DISK_FULL):
            metadata.begin("Trainer", "Trainer", {"config": "x" * 30000})


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (
            RuntimeError(
                "Traceback (most recent call last):\n  File 'x.py'\nOSError: [Errno 28] No space left on device: '/d/a'"
                "\n [while running 'Write/Shard']"
            ),
            "/d/a",
        ),
        (
            ValueError(
                "/d/b.tmp; No space left on device [Op:SaveV2]\n\nDetected at node Save defined at:\n  File 'y.py'"
            ),
            "/d/b",
        ),
        (OSError(122, "Disk quota exceeded", "/d/c"), "/d/c"),
    ],
)
def test_full_disk_in_other_libraries_words_is_named_without_their_tracebacks(error: Exception, place: str) -> None:
    wrapped = RuntimeError("the writer failed")
    wrapped.__cause__ = error
    for found in (describe(error), describe(wrapped)):
        assert found["expected"]
        assert place in found["error"]
        assert "pipeline.root" in found["error"]
        assert "File" not in found["error"]


def prepare(folder: Path) -> None:
    write_parcels(folder / "parcels.csv", 400)
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")


def run(folder: Path) -> Finished:
    return headrace(folder, "run", "config.yaml")


def weights(folder: Path) -> list[bytes]:
    """Those of each version in service."""
    return [path.read_bytes() for path in folder.glob("serving/**/model.weights.h5")]


@pytest.mark.slow
def test_run_that_fills_the_disk_says_where_and_the_next_one_continues(
    disk: Disk, tmp_path: Path, new_folder: Callable[[str], Path]
) -> None:
    prepare(tmp_path)
    for size in ("64k", "400k", "500k", "600k", "700k"):
        disk.resize(size)
        full = run(tmp_path)
        said = full.out + full.err
        assert full.code == 1, said
        assert "Traceback" not in said
        assert "already open" not in said
        assert DISK_FULL in said.lower() or "No space left on device" in said, said
        assert said.count("pipeline.root") == 1
        assert str(disk.folder / "parcels") in said
        assert "WARNING" not in said, said
        ended = Counter(re.findall(r"^\d\d:\d\d:\d\d \w+ +(failed|interrupted)", full.out, re.MULTILINE))
        assert ended == ({"failed": 1} if " Spans " in full.out else {}), said
    disk.resize("100m")
    done = run(tmp_path)
    assert done.code == 0, done.out + done.err
    undisturbed = new_folder("undisturbed")
    prepare(undisturbed)
    assert run(undisturbed).code == 0
    assert len(versions(tmp_path)) == 1
    assert weights(tmp_path) == weights(undisturbed)
