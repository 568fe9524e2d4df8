"""The store of spans: whole, damaged, gone, and killed while it is written."""

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from span_runs import (
    DAYS,
    FIRST_TWO,
    config,
    days,
    generate,
    reported,
    rows_of,
    write,
)

from headrace.components.example_gen.span_store import SpanStore


def test_shards_of_a_span_carry_its_name_and_are_shared_with_the_store(folder: Path) -> None:
    days("2026-01-01", "2026-01-02")
    examples = generate(folder, config(DAYS, window=2, shards=2))
    names = [path.name for path in sorted(Path(examples.uri, "Split-train").iterdir())]
    assert names == [f"data_tfrecord-{day}-0000{shard}-of-00002.gz" for day in FIRST_TWO for shard in range(2)]
    key = reported(examples, "spans")["2026-01-01"]
    kept = folder / "store" / key / "Split-train" / "data_tfrecord-00000-of-00002.gz"
    assert kept.samefile(Path(examples.uri, "Split-train", names[0]))


def test_removed_store_costs_only_time(folder: Path) -> None:
    days("2026-01-01", "2026-01-02")
    first = generate(folder, config(DAYS, window=2))
    shutil.rmtree(folder / "store")
    second = generate(folder, config(DAYS, window=2))
    assert (rows_of(first), reported(first, "spans")) == (rows_of(second), reported(second, "spans"))


@pytest.mark.parametrize("damage", ["folder", "split", "shard", "empty", "cut", "overwritten", "rotten"])
def test_span_whose_shards_are_not_all_there_is_read_again(folder: Path, reads: Counter[str], damage: str) -> None:
    days("2026-01-01", "2026-01-02")
    data = config(DAYS, window=2, shards=2)
    made = generate(folder, data)
    whole, key = rows_of(made), reported(made, "spans")["2026-01-01"]
    shutil.rmtree(made.uri)
    shard = folder / "store" / key / "Split-train" / "data_tfrecord-00001-of-00002.gz"
    if damage in ("folder", "split"):
        shutil.rmtree(shard.parent.parent if damage == "folder" else shard.parent)
    elif damage == "shard":
        shard.unlink()
    elif damage in ("overwritten", "rotten"):
        content, before = bytearray(shard.read_bytes()), shard.stat()
        content[len(content) // 2] ^= 1
        shard.write_bytes(bytes(content))
        if damage == "rotten":
            os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.truncate(shard, 0 if damage == "empty" else shard.stat().st_size - 1)
    for again in ({"batches 2026-01-01.csv"}, set()):
        reads.clear()
        assert rows_of(generate(folder, data)) == whole
        assert set(reads) == again


@pytest.mark.parametrize("text", ["{", "", "[]", "null", "1", '{"rows": 1}', "{}", "\0\0", "[1]"])
def test_store_that_cannot_be_read_counts_as_empty(folder: Path, text: str) -> None:
    days("2026-01-01")
    whole = rows_of(generate(folder, config(DAYS)))
    kept = list((folder / "store").rglob("*.json"))
    assert {path.name for path in kept} == {"seen.json", "scan.json", "columns.json", "ingested.json"}
    for path in kept:
        sound = path.read_text()
        path.write_text(text)
        again = generate(folder, config(DAYS))
        assert rows_of(again) == whole
        assert reported(again, "notes") == []
        assert without_times(path) == without_times(path, sound) or (path.name, text) == ("columns.json", "[]")


def without_times(path: Path, text: str | None = None) -> object:
    """What is kept in a file, but for when shards were written: those that are written again have other times."""
    kept = json.loads(path.read_text(encoding="utf-8") if text is None else text)
    if path.name == "ingested.json":
        kept["files"] = {name: (size, checksum) for name, (size, _, checksum) in kept["files"].items()}
    return kept


def test_shards_are_on_disk_before_they_are_said_to_be_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days("2026-01-01")
    synced: set[int] = set()
    plain = os.fsync

    def fsync(opened: int) -> None:
        if not list((folder / "store").glob("*/ingested.json")):
            synced.add(os.fstat(opened).st_ino)
        plain(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    generate(folder, config(DAYS))
    (kept,) = (folder / "store").glob("*/ingested.json")
    assert {path.stat().st_ino for path in kept.parent.glob("Split-*/*")} <= synced
    assert len(list(kept.parent.glob("Split-*/*"))) == 2


@pytest.mark.parametrize("killed_in", ["_write", "_write_json"])
def test_kill_leaves_nothing_half_kept(folder: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str) -> None:
    """The store is killed at each step in turn; the run after it gives what an undisturbed one does."""
    days("2026-01-01", "2026-01-02")
    data = config(DAYS, window=2)
    whole = rows_of(generate(folder, data, store=False))
    plain, calls = getattr(SpanStore, killed_in), 0

    def killed(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        plain(*args)

    at = 0
    monkeypatch.setattr(SpanStore, killed_in, killed if killed_in == "_write" else staticmethod(killed))
    generate(folder, data)
    steps, at = calls, 1
    assert steps >= 6
    while at <= steps:
        shutil.rmtree(folder / "store")
        calls = 0
        with pytest.raises(KeyboardInterrupt):
            generate(folder, data)
        assert rows_of(generate(folder, data)) == whole
        at += 1


def test_data_without_placeholders_keeps_nothing(folder: Path) -> None:
    write("in/a.csv")
    examples = generate(folder, config("in/a.csv"))
    assert reported(examples, "spans") == []
    assert [path.name for path in (folder / "store").iterdir()] == ["seen.json"]
    write("in/a.csv", 500, rows=41)
    assert len(reported(generate(folder, config("in/a.csv")), "notes")) == 1
