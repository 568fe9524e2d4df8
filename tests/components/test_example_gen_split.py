"""Rows to splits and shards: which rows go together, how even the shards are, and what the plan says."""

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.example_gen.shards.layout import (
    MAX_PARTITIONS,
    PARTITION_BYTES,
    Partitioner,
    Shard,
    ShardLayout,
    SizeEstimate,
    SplitColumn,
    automatic_count,
    plan_shards,
)
from headrace.components.examples.row_hash import row_hash, split_numbers
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import CsvSource

SPLITS = {"train": 8, "eval": 1, "test": 1}


def batch(rows: int, first: int = 0) -> pa.RecordBatch:
    ids = np.arange(first, first + rows)
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array([f"user {i % 50}" for i in ids])], names=["id", "user"])


def layout(shards: int = 1, split_key: str | None = None, seed: int = 0) -> ShardLayout:
    return ShardLayout(SPLITS, dict.fromkeys(SPLITS, shards), (split_key,) if split_key else (), seed)


def by_column(values: dict[str, Any]) -> ShardLayout:
    """Split by the column `fold`; values: those of the splits that are not their names."""
    data = DataConfig(source=CsvSource(kind="csv", path="a.csv"), split_column="fold", split_values=values)
    return replace(layout(), split_column=SplitColumn.of(data))


def assigned(rows: pa.RecordBatch, how: ShardLayout, part: int = 0) -> list[Shard]:
    """The shard that each row gets to."""
    owner = list(how.all_partitions())
    return [owner[partition] for partition in Partitioner(how, part).assign(rows)]


def splits_of(rows: pa.RecordBatch, how: ShardLayout) -> list[str]:
    return [split for split, _ in assigned(rows, how)]


def test_buckets_get_their_share_of_the_rows() -> None:
    counts = Counter(splits_of(batch(20_000), layout()))
    assert counts["train"] / 20_000 == pytest.approx(0.8, abs=0.01)
    assert counts["eval"] / 20_000 == pytest.approx(0.1, abs=0.01)


def test_a_row_keeps_its_split_whatever_stands_around_it() -> None:
    rows = batch(500)
    order = np.random.default_rng(0).permutation(500)
    alone = [splits_of(rows.slice(i, 1), layout())[0] for i in range(500)]
    shuffled = splits_of(rows.take(pa.array(order)), layout())
    assert splits_of(rows, layout()) == alone
    assert shuffled == [alone[i] for i in order]


def test_rows_of_one_key_stay_in_one_split_and_still_fill_all_its_shards() -> None:
    by_user: defaultdict[Any, set[str]] = defaultdict(set)
    shards: Counter[Any] = Counter()
    rows = batch(5000)
    for user, shard in zip(rows.column("user").to_pylist(), assigned(rows, layout(5, "user")), strict=True):
        by_user[user].add(shard[0])
        shards[shard] += 1
    assert all(len(splits) == 1 for splits in by_user.values())
    train = [rows for (split, _), rows in shards.items() if split == "train"]
    assert len(train) == 5
    assert max(train) - min(train) <= 1


@pytest.mark.parametrize(
    ("values", "arrow", "listed"),
    [
        (["train", "eval", "test", "train"], pa.string(), {}),
        ([b"train", b"dev", b"held out", b"train"], pa.binary(), {"eval": ("dev", "valid"), "test": ("held out",)}),
        ([2, 3, 4, 0], pa.int64(), {"train": (0, 1, 2), "eval": (3,), "test": (4,)}),
        ([2.0, 3.0, 4.0, 0.0], pa.float64(), {"train": (0, 1, 2), "eval": (3,), "test": (4,)}),
    ],
)
def test_a_column_names_the_split_by_its_name_or_by_the_values_listed_for_it(
    values: list[Any], arrow: pa.DataType, listed: dict[str, Any]
) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(values, arrow), pa.array(range(4))], names=["fold", "id"])
    assert splits_of(rows, by_column(listed)) == ["train", "eval", "test", "train"]
    assert splits_of(rows.slice(1), by_column(listed)) == ["eval", "test", "train"]
    assert splits_of(rows.slice(0, 0), by_column(listed)) == []


@pytest.mark.parametrize(
    ("values", "arrow", "what"),
    [
        (["train", "valid"], pa.string(), "'valid', which is not"),
        (["train", None], pa.string(), "a row has no value"),
        (["train", ""], pa.string(), "a row has no value"),
        ([1, 2], pa.int64(), "'1', which is not"),
        ([float("nan")], pa.float64(), "a row has no value"),
    ],
)
def test_a_row_whose_column_names_no_split_is_refused_with_the_values_there_are(
    values: list[Any], arrow: pa.DataType, what: str
) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(values, arrow)], names=["fold"])
    with pytest.raises(DataError) as error:
        Partitioner(by_column({}), 0, "in/a.csv").assign(rows)
    assert str(error.value).startswith("in/a.csv: column 'fold': ")
    assert what in str(error.value)
    assert "The values are train, eval, test; `data.split_values`" in str(error.value)


def test_another_seed_gives_other_splits_and_another_order() -> None:
    assert splits_of(batch(500), layout()) != splits_of(batch(500), layout(seed=1))
    assert assigned(batch(500), layout(5)) != assigned(batch(500), layout(5), part=1)


@pytest.mark.parametrize("rows", [100, 999, 12_345])
@pytest.mark.parametrize("partitions", [1, 3])
def test_shards_of_a_split_differ_by_one_row_over_all_batches_of_a_part(rows: int, partitions: int) -> None:
    how = replace(layout(10), partitions=dict.fromkeys(SPLITS, partitions))
    partitioner, owner = Partitioner(how, 2), list(how.all_partitions())
    counts: Counter[Any] = Counter()
    for first in range(0, rows, 77):
        counts.update(owner[partition] for partition in partitioner.assign(batch(min(77, rows - first), first)))
    for split in SPLITS:
        own = [counts[split, shard] for shard in range(10)]
        assert max(own) - min(own) <= 1


def test_the_deal_does_not_follow_a_pattern_in_the_rows() -> None:
    shards = np.array([shard for _, shard in assigned(batch(20_000), ShardLayout({"all": 1}, {"all": 4}, (), 0))])
    every_fourth = np.bincount(shards[::4], minlength=4)
    assert every_fourth == pytest.approx(1250, rel=0.1)


@settings(max_examples=100)
@given(st.lists(st.integers(-(2**53), 2**53) | st.none(), min_size=1, max_size=10))
def test_whole_numbers_hash_alike_as_int_and_as_float(values: list[int | None]) -> None:
    ints = pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["n"])
    floats = pa.RecordBatch.from_arrays([pa.array(values, pa.float64())], names=["n"])
    assert row_hash(ints, ["n"], 0).tolist() == row_hash(floats, ["n"], 0).tolist()


@settings(max_examples=200)
@given(st.lists(st.text(max_size=20) | st.none(), min_size=1, max_size=20))
def test_texts_hash_alike_only_where_they_are_equal(values: list[str | None]) -> None:
    column = pa.array(["in front", *values], pa.string()).slice(1)
    hashes = row_hash(pa.RecordBatch.from_arrays([column], names=["s"]), ["s"], 0).tolist()
    alone = [
        row_hash(pa.RecordBatch.from_arrays([pa.array([v], pa.string())], names=["s"]), ["s"], 0)[0] for v in values
    ]
    assert hashes == alone
    assert len(set(hashes)) == len(set(values))


@pytest.mark.parametrize("width", [0, 1, 8, 64, 65])
def test_many_texts_of_one_length_hash_as_a_few_do(width: int) -> None:
    random = np.random.default_rng(width)
    values = [random.bytes(width) if number % 5 else (b"", None)[number % 2] for number in range(1200)]
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["s"])
    apart = np.concatenate([row_hash(batch.slice(first, 300), ["s"], 0) for first in range(0, 1200, 300)])
    assert row_hash(batch, ["s"], 0).tolist() == apart.tolist()


GOLDEN = [7849788001713752964, 2057412604003530436]
ITEMS = st.lists(st.integers(-5, 5), max_size=4)


@settings(max_examples=200)
@given(st.lists(st.none() | ITEMS, min_size=1, max_size=20), st.sampled_from(["int", "float", "text", "large"]))
def test_lists_hash_alike_only_where_they_are_equal(values: list[list[int] | None], how: str) -> None:
    types = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "large": pa.large_binary()}
    made: list[Any] = values if how in {"int", "float"} else [v and [str(item) for item in v] for v in values]
    wrap = pa.large_list if how == "large" else pa.list_
    column = pa.array([made[0], *made], wrap(types[how])).slice(1)
    hashes = row_hash(pa.RecordBatch.from_arrays([column], names=["l"]), ["l"], 0).tolist()
    assert len(set(hashes)) == len({repr(v) for v in values})
    assert len(set(zip(hashes, map(repr, values), strict=True))) == len(set(hashes))


def test_whole_numbers_in_lists_hash_alike_as_int_and_as_float() -> None:
    hashes = [
        row_hash(pa.RecordBatch.from_arrays([pa.array([[1, 2], [], None], pa.list_(t))], names=["l"]), ["l"], 0)
        for t in (pa.int64(), pa.float64())
    ]
    assert hashes[0].tolist() == hashes[1].tolist()


def test_binary_values_hash_as_equal_texts_do() -> None:
    text = pa.array(["a", "", None, "é"])
    hashes = [
        row_hash(pa.RecordBatch.from_arrays([text.cast(arrow)], names=["s"]), ["s"], 0).tolist()
        for arrow in (pa.string(), pa.binary(), pa.large_string())
    ]
    assert hashes[0] == hashes[1] == hashes[2]


def test_the_hash_of_scalars_stays_as_it_is_from_version_to_version() -> None:
    row = pa.RecordBatch.from_pylist([{"i": 7, "f": 0.5, "s": "seven"}, {"i": None, "f": None, "s": None}])
    assert row_hash(row, ["f", "i", "s"], 3).tolist() == GOLDEN


def test_large_neighbouring_integers_hash_apart() -> None:
    ids = pa.array(np.arange(2**60, 2**60 + 10_000))
    hashes = row_hash(pa.RecordBatch.from_arrays([ids], names=["id"]), ["id"], 0)
    assert len(np.unique(hashes)) == 10_000
    counts = np.bincount(split_numbers(hashes, SPLITS))
    assert counts[0] / 10_000 == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    ("different", "copies", "spread"), [(24, 100, True), (1000, 10, True), (24, 9, False), (1001, 10, False)]
)
def test_few_different_rows_are_divided_copy_by_copy(different: int, copies: int, spread: bool) -> None:
    ids = np.random.default_rng(0).permutation(np.repeat(np.arange(different), copies))
    rows = pa.RecordBatch.from_arrays([pa.array(ids)], names=["id"])
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for number, split in zip(ids, splits_of(rows, layout()), strict=True):
        found[number][split] += 1
    together = [len(splits) == 1 for splits in found.values()]
    if not spread:
        assert all(together)
        return
    assert all(splits["train"] for splits in found.values())
    share = sum(splits["eval"] for splits in found.values()) / len(ids)
    assert share == pytest.approx(0.1, abs=3 * (0.1 * 0.9 / len(ids)) ** 0.5)
    again = np.random.default_rng(1).permutation(len(ids))
    counted = Counter(zip(ids[again].tolist(), splits_of(rows.take(again), layout()), strict=True))
    assert counted == Counter({(n, split): count for n, splits in found.items() for split, count in splits.items()})


def test_copies_with_a_key_stay_together() -> None:
    ids = np.repeat(np.arange(24), 100)
    rows = pa.RecordBatch.from_arrays([pa.array(ids)], names=["id"])
    assert len(set(zip(ids.tolist(), splits_of(rows, layout(split_key="id")), strict=True))) == 24


@pytest.mark.parametrize(
    ("size", "readers", "shards"),
    [
        (0, 1, 1),
        (9e6, 1, 1),
        (35e6, 1, 3),
        (500e6, 1, 10),
        (1.9e9, 1, 10),
        (3e9, 1, 20),
        (3e9, 4, 40),
        (150e9, 2, 1000),
    ],
)
def test_automatic_shards_follow_the_rule(size: float, readers: int, shards: int) -> None:
    assert automatic_count(size, readers) == shards


def test_the_plan_gives_its_reason() -> None:
    planned = plan_shards(SPLITS, SizeEstimate(1e9, 1e9), "auto", 1)
    assert planned.shards == {"train": 10, "eval": 10, "test": 10}
    assert "train 800 MB in 10" in planned.reason
    assert "10 shards for 1 reading host" in planned.reason


def test_an_explicit_count_is_honoured() -> None:
    planned = plan_shards(SPLITS, SizeEstimate(1e12, 1e12), 3, 1)
    assert planned.shards == {"train": 3, "eval": 3, "test": 3}
    assert "configured" in planned.reason


def test_a_target_size_is_honoured() -> None:
    planned = plan_shards(SPLITS, SizeEstimate(1e9, 1e9), "150MB", 1)
    assert planned.shards == {"train": 5, "eval": 1, "test": 1}
    assert "train 800 MB in 5" in planned.reason
    assert "shards of about 150 MB" in planned.reason


@pytest.mark.parametrize("held", [0, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("shards", [1, 40, "auto"])
def test_a_partition_fits_into_memory_and_their_number_stays_bounded(held: float, shards: int | str) -> None:
    planned = plan_shards(SPLITS, SizeEstimate(held / 5, held), shards, 1)
    for split, count in planned.shards.items():
        share = held * SPLITS[split] / 10
        assert share / (count * planned.partitions[split]) <= 1.5 * max(PARTITION_BYTES, held / MAX_PARTITIONS)
    assert sum(planned.shards[split] * planned.partitions[split] for split in SPLITS) <= MAX_PARTITIONS + 2 * sum(
        planned.shards.values()
    )


def test_a_row_keeps_its_hash_when_others_make_its_column_one_of_lists() -> None:
    for values, arrow in (([3, 5, None], pa.int64()), (["a", "", None], pa.string()), ([0.5, 2.0, None], pa.float64())):
        single = pa.RecordBatch.from_arrays([pa.array(values, arrow)], names=["t"])
        lists = [None if value is None else [value] for value in values]
        listed = pa.RecordBatch.from_arrays([pa.array([*lists, values[:2], []], pa.list_(arrow))], names=["t"])
        hashes = row_hash(listed, ["t"], 0).tolist()
        assert hashes[:3] == row_hash(single, ["t"], 0).tolist()
        assert len(set(hashes)) == 5


def test_integers_that_no_double_holds_have_hashes_of_their_own_above_and_below_zero() -> None:
    numbers = [sign * (2**53 + more) for sign in (1, -1) for more in (0, 1, 2, 3)]
    for some in (numbers, numbers[4:], numbers[:4]):
        rows = pa.RecordBatch.from_arrays([pa.array(some, pa.int64())], names=["n"])
        hashes = row_hash(rows, ["n"], 0).tolist()
        assert len(set(hashes)) == len(some)
        assert [row_hash(rows.slice(i, 1), ["n"], 0)[0] for i in range(len(some))] == hashes
