"""The store of spans, killed before each of its changes to the file system."""

from __future__ import annotations

import shutil
from pathlib import Path

from dying import changes, deaths

from headrace.components.example_gen.span_store import SpanShards, SpanStore


def _shards(folder: Path) -> SpanShards:
    for split in ("train", "eval"):
        for number in range(2):
            shard = folder / f"Split-{split}" / f"data_tfrecord-0000{number}-of-00002.gz"
            shard.parent.mkdir(parents=True, exist_ok=True)
            shard.write_bytes(f"{split} {number}".encode())
    return SpanShards(folder, {"train": 2, "eval": 2}, "two shards")


def test_shards_that_are_taken_into_the_store_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    store = SpanStore(tmp_path / "store")
    ends = []
    for _ in deaths(lambda: store.store_shards("key", _shards(tmp_path / "made"), ["seen"]), tmp_path):
        found = store.shards("key")
        ends.append(found is not None)
        shutil.rmtree(tmp_path / "made", ignore_errors=True)
        kept = store.store_shards("key", _shards(tmp_path / "made"), ["seen"])
        assert store.shards("key") == kept
        assert sorted(path.name for path in kept.folder.iterdir()) == ["Split-eval", "Split-train", "ingested.json"]
        shutil.rmtree(tmp_path / "store")
    assert sorted(set(ends)) == [False, True]
    print(f"{len(ends)} kills")


def test_shards_are_on_the_disk_before_they_are_said_to_be_there(tmp_path: Path) -> None:
    store, made = SpanStore(tmp_path / "store"), _shards(tmp_path / "made")
    found = changes(lambda: store.store_shards("key", made, []), tmp_path)
    at = [next(n for n, what in enumerate(found) if what.startswith(start)) for start in ("fsync made", "rename made")]
    said = next(n for n, what in enumerate(found) if what.startswith("rename store/key/.ingested.json"))
    assert [what.split()[0] for what in found[at[0] : at[1]]] == ["fsync"] * 7  # 4 shards, their folders, the folder
    assert at[1] < said
    assert found[said - 1].startswith("fsync store/key/.ingested.json")
