"""Statistics kept by span: the same as of all spans at once, and only new spans are read."""

import hashlib
import json
import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from test_statistics import Rows, assert_rank, assert_same_numbers, awkward, name_of, pairs, read, run, values_of, write
from tfx.types import standard_artifacts

from headrace.common.errors import DataError
from headrace.components.statistics import categories, component, spans
from headrace.components.statistics.combine import (
    Accumulator,
    AccumulatorCombiner,
    StatisticsCombiner,
    combine_directly,
)
from headrace.components.statistics.read import batches

Examples: TypeAlias = standard_artifacts.Examples
Split: TypeAlias = dict[str, list[Rows]]
SMALL = 300


def spanned(folder: Path, data: dict[str, Split]) -> Examples:
    """An artifact of spans, as ExampleGen makes it: splits and shards of each span, whose name is its key as well."""
    first, *_ = data.values()
    examples = write(folder, {split: [] for split in first})
    for name, splits in data.items():
        write(folder / "parts" / name, splits)
        for shard in (folder / "parts" / name).rglob("*.gz"):
            own = shard.name.replace("data_tfrecord", f"data_tfrecord-{name}")
            os.link(shard, folder / shard.parent.name / own)
    examples.set_string_custom_property("spans", json.dumps({name: f"key-{name}" for name in data}))
    return examples


@pytest.fixture
def data() -> dict[str, Split]:
    rng = np.random.default_rng(8)
    made = {
        f"2026-01-0{day}": {"train": [awkward(rng, SMALL), awkward(rng, 20)], "eval": [awkward(rng, 30)]}
        for day in range(1, 5)
    }
    made["2026-01-05"] = {"train": [[{**row, "new": [1.5]} for row in awkward(rng, SMALL)]], "eval": [[]]}
    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shards that were read."""
    found: list[str] = []

    def counted(file: str) -> Iterator[Any]:
        found.append(Path(file).name)
        return batches(file)

    monkeypatch.setattr("headrace.components.statistics.combine.batches", counted)
    return found


def compute(folder: Path, examples: Examples, name: str, code: str = "1") -> Any:
    """Our executor with a store."""
    properties = {"store": str(folder / "store"), "code": code}
    return run(component.Executor, examples, folder / name, exec_properties=properties)


def assert_same(ours: Any, theirs: Any) -> None:
    for left, right in pairs(ours, theirs):
        if left.HasField("num_stats"):
            assert_same_numbers(left, right)
        assert left == right


@pytest.mark.parametrize("workers", [0, 1])
def test_statistics_by_span_are_those_of_all_at_once(
    tmp_path: Path, data: dict[str, Split], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(component, "workers_here", lambda _: workers)
    examples = spanned(tmp_path / "examples", data)
    first, again = compute(tmp_path, examples, "first"), compute(tmp_path, examples, "again")
    left, right = read(first), read(again)
    assert list(left) == list(right) == ["train", "eval"]
    assert all(left[split] == right[split] for split in left)
    assert_same(first, run(component.Executor, examples, tmp_path / "at-once"))


def test_quantiles_over_spans_are_as_exact_as_the_sketch_promises(tmp_path: Path, data: dict[str, Split]) -> None:
    examples = spanned(tmp_path / "examples", data)
    values = values_of(examples.uri, "train")
    features = {name_of(feature): feature for feature in read(compute(tmp_path, examples, "out"))["train"].features}
    for name in ("finite", "huge", "strange"):
        assert_rank(features[name].num_stats.median, 0.5, values[name])
        (quantiles,) = [one for one in features[name].num_stats.histograms if one.type == one.QUANTILES]
        for number, bucket in enumerate(quantiles.buckets):
            assert_rank(bucket.high_value, (number + 1) / len(quantiles.buckets), values[name])


def test_only_new_spans_are_read(tmp_path: Path, data: dict[str, Split], reads: list[str]) -> None:
    names = sorted(data)
    compute(tmp_path, spanned(tmp_path / "first", {name: data[name] for name in names[:4]}), "one")
    reads.clear()
    moved = spanned(tmp_path / "second", {name: data[name] for name in names[1:]})
    ours = compute(tmp_path, moved, "two")
    assert {name[14:24] for name in reads} == {"2026-01-05"}
    reads.clear()
    compute(tmp_path, moved, "three")
    assert not reads
    assert_same(ours, run(component.Executor, moved, tmp_path / "at-once"))


def test_other_code_reads_all_again(tmp_path: Path, data: dict[str, Split], reads: list[str]) -> None:
    examples = spanned(tmp_path / "examples", data)
    compute(tmp_path, examples, "one")
    number = len(reads)
    compute(tmp_path, examples, "two", code="2")
    assert len(reads) == 2 * number


def test_damaged_sums_are_added_up_again(tmp_path: Path, data: dict[str, Split], reads: list[str]) -> None:
    examples = spanned(tmp_path / "examples", data)
    whole = read(compute(tmp_path, examples, "one"))
    file = next((tmp_path / "store" / "key-2026-01-02").rglob("train.arrow"))
    file.write_bytes(file.read_bytes()[:-9])
    reads.clear()
    mended = read(compute(tmp_path, examples, "two"))
    assert {name[14:24] for name in reads} == {"2026-01-02"}
    assert mended["train"] == whole["train"]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch evil",))


def test_kept_file_of_another_kind_is_made_again(
    tmp_path: Path, data: dict[str, Split], reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a pickle, which stood there once and is never loaded."""
    monkeypatch.chdir(tmp_path)
    examples = spanned(tmp_path / "examples", data)
    whole = read(compute(tmp_path, examples, "one"))
    file = next((tmp_path / "store" / "key-2026-01-02").rglob("train.arrow"))
    text = pickle.dumps(Evil())
    file.write_bytes(text + hashlib.sha256(text).digest())
    with pytest.raises(DataError, match=r"train\.arrow: .*accumulator"):
        spans.load(file)
    reads.clear()
    mended = read(compute(tmp_path, examples, "two"))
    assert {name[14:24] for name in reads} == {"2026-01-02"}
    assert mended["train"] == whole["train"]
    assert not Path("evil").exists()


@pytest.mark.parametrize("place", [0, 1000, -1])
def test_sums_with_a_changed_byte_are_not_whole(tmp_path: Path, place: int) -> None:
    spans.save(tmp_path / "a.arrow", StatisticsCombiner().create_accumulator())
    content = bytearray((tmp_path / "a.arrow").read_bytes())
    assert spans.is_whole(tmp_path / "a.arrow")
    content[place] ^= 1
    (tmp_path / "a.arrow").write_bytes(content)
    assert not spans.is_whole(tmp_path / "a.arrow")


def test_counts_beyond_the_limit_survive_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their sketch of what was dropped."""
    monkeypatch.setattr(categories, "LIMIT", 50)
    rows = [{"word": [f"{number % 200}".encode()]} for number in range(2000)]
    (shard,) = (write(tmp_path / "in", {"train": [rows]}), *Path(tmp_path / "in").rglob("*.gz"))[1:]
    statistics = StatisticsCombiner()
    total = statistics.create_accumulator()
    for batch in batches(str(shard)):
        total = statistics.add_input(total, batch)
    spans.save(tmp_path / "a.arrow", statistics.compact(total))
    loaded = spans.load(tmp_path / "a.arrow")
    assert statistics.extract_output(loaded) == statistics.extract_output(total)


class Meeting(AccumulatorCombiner):
    """Each group waits for another one that is read at the same time."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2, timeout=20)

    def add_input(self, accumulator: Accumulator, batch: Any) -> Accumulator:
        self.barrier.wait()
        return super().add_input(accumulator, batch)


def shards(examples: Examples, split: str = "train") -> list[str]:
    return sorted(map(str, (Path(examples.uri) / f"Split-{split}").glob("*.gz")))


def test_groups_of_two_keys_are_read_at_the_same_time(tmp_path: Path) -> None:
    (file,) = shards(write(tmp_path, {"train": [awkward(np.random.default_rng(8), 5)]}))
    written: dict[str, Accumulator] = {}
    combine_directly({"a": [file], "b": [file]}, Meeting(), lambda found: written.update([found]), workers=2)
    assert [*written] == ["a", "b"]
    assert written["a"].columns is not written["b"].columns


class Waiting(AccumulatorCombiner):
    """A group of seven rows takes until no other one is read any more; `others` were, at least `least`."""

    def __init__(self, least: int) -> None:
        self.least, self.others, self.read = least, 0, threading.Semaphore(0)

    def add_input(self, accumulator: Accumulator, batch: Any) -> Accumulator:
        if batch.num_rows == 7:
            while self.read.acquire(timeout=20 if self.others < self.least else 0.3):
                self.others += 1
        else:
            self.read.release()
        return super().add_input(accumulator, batch)


def test_no_more_than_two_accumulators_a_worker_wait_for_a_slow_group(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    slow, file = shards(write(tmp_path, {"train": [awkward(rng, 7), awkward(rng, 5)]}))
    combiner, written = Waiting(least=3), list[str]()
    keys = {"a": [slow, *[file] * 8], "b": [file] * 3}
    combine_directly(keys, combiner, lambda found: written.append(found[0]), workers=2)
    assert written == ["a", "b"]
    assert combiner.others == 3
