"""Splits by group: rows with the same key stay together, as an independent computation of the hash says."""

from __future__ import annotations

import hashlib
import math
import struct
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from beam_runs import same_with_beam
from hypothesis import given
from hypothesis import strategies as st
from messages import says

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import IngestResult, ingest
from headrace.components.example_gen.shards.group_split import LARGEST, MOST_GROUPS, GroupRows, GroupSplit, group_lines
from headrace.components.example_gen.span_store import SpanStore
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import ParquetSource

SHARES = {"train": 8, "eval": 1, "test": 1}
SPLITS = [*SHARES]
MASK = 2**64 - 1
ODD = 0x9E3779B97F4A7C15

TEXTS = st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace").decode())
INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1)
FLOATS = st.floats(allow_nan=True)
COLUMNS = st.one_of(
    *(
        st.tuples(st.just(arrow), st.lists(st.none() | values, min_size=1, max_size=20))
        for arrow, values in ((pa.string(), TEXTS), (pa.int64(), INTEGERS), (pa.float64(), FLOATS))
    )
)


def mixed(number: int) -> int:
    """MurmurHash3's finalizer of 64 bits."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        number = ((number ^ number >> 33) * factor) & MASK
    return number ^ number >> 33


def salt(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def value_hash(value: str | int | float) -> int:
    if isinstance(value, str):
        code = value.encode()
        items = sum(mixed(((byte + 1) * ODD) & MASK) * pow(ODD, place, 2**64) for place, byte in enumerate(code))
        return mixed((items + len(code) * ODD) & MASK)
    if isinstance(value, int) and abs(value) > 2**53:
        return mixed((value + ODD) & MASK)
    (bits,) = struct.unpack("<Q", struct.pack("<d", float(value) + 0.0))
    return mixed((bits + ODD) & MASK)


def split_of_group(values: dict[str, Any], seed: int = 0) -> str:
    """The split of a group, one value at a time in Python's integers."""
    total = salt(str(seed)) + sum(mixed(value_hash(value) ^ salt(name)) for name, value in values.items())
    bucket = mixed(total & MASK) % 10
    return "train" if bucket < 8 else "eval" if bucket == 8 else "test"


def is_missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def splits(batch: pa.RecordBatch, *names: str, seed: int = 0) -> tuple[list[str], GroupRows]:
    numbers, groups = GroupSplit(names, seed, SHARES).numbers(batch)
    return [SPLITS[number] for number in numbers], groups


@given(COLUMNS, st.integers(0, 5))
def test_the_value_of_a_group_alone_decides_its_split(column: tuple[pa.DataType, list[Any]], seed: int) -> None:
    arrow, values = column
    batch = pa.RecordBatch.from_arrays([pa.array(values, arrow), pa.array(range(len(values)))], names=["key", "row"])
    found, groups = splits(batch, "key", seed=seed)
    for value, split in zip(values, found, strict=True):
        if not is_missing(value):
            assert split == split_of_group({"key": value}, seed)
    assert groups.missing == sum(map(is_missing, values))
    counted = Counter(value + 0.0 if isinstance(value, float) else value for value in values if not is_missing(value))
    assert sorted(groups.rows.values()) == sorted(counted.values())


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), min_size=1))
def test_columns_of_a_key_decide_together_in_any_order(rows: list[tuple[str, int]]) -> None:
    shops, customers = zip(*rows, strict=True)
    batch = pa.record_batch({"shop": shops, "customer": customers})
    found, groups = splits(batch, "shop", "customer")
    assert found == [split_of_group({"shop": shop, "customer": customer}) for shop, customer in rows]
    assert (found, groups) == splits(batch, "customer", "shop")
    assert groups.number == str(len({*rows}))


def test_rows_without_a_value_are_split_one_by_one_and_equal_ones_together() -> None:
    ids = np.repeat(np.arange(3000), 2)
    batch = pa.record_batch({"shop": ["a"] * 6000, "customer": pa.array([None] * 6000, pa.int64()), "id": ids})
    found, groups = splits(batch, "shop", "customer")
    assert (groups.missing, groups.rows) == (6000, {})
    assert found[::2] == found[1::2]
    assert Counter(found)["eval"] / 6000 == pytest.approx(0.1, abs=0.02)
    lines = [*group_lines(("shop", "customer"), groups, Counter(found), SHARES)]
    (line,) = lines
    assert says(line, "6,000 of 6,000 rows …'shop' and 'customer', …no group")


def test_dictionary_coded_keys_are_those_of_their_values() -> None:
    plain = pa.array(["a", None, "", "b", "a"])
    rows = {"row": range(5)}
    coded = splits(pa.record_batch({"key": plain.dictionary_encode(), **rows}), "key")
    assert coded[1] == splits(pa.record_batch({"key": plain, **rows}), "key")[1]
    assert [coded[0][row] for row in (0, 3, 4)] == [split_of_group({"key": value}) for value in "aba"]


def test_of_many_groups_the_largest_are_remembered() -> None:
    rows = np.concatenate([np.repeat(7, 300), np.arange(100, 100 + 2 * MOST_GROUPS), np.repeat(9, 50)])
    _, groups = splits(pa.record_batch({"key": rows}), "key")
    twice = groups + groups
    assert (len(groups.rows), groups.complete, groups.number) == (LARGEST, False, "over 1,000")
    assert sorted(twice.rows.values())[-2:] == [100, 600]
    assert not (GroupRows() + groups).complete
    assert GroupRows({"1": 1}) + GroupRows({"1": 2, "2": 5}, 3) == GroupRows({"1": 3, "2": 5}, 3)


def run(path: Path | str, folder: Path, store: Path | None = None, **settings: Any) -> IngestResult:
    data = DataConfig(source=ParquetSource(kind="parquet", path=str(path)), **{"split_key": "key", **settings})
    return ingest(data, find_spans(data), folder, lambda _work: serial_map, SpanStore(store))


def table(keys: Any, first: int = 0) -> pa.Table:
    return pa.table({"row": np.arange(first, first + len(keys)), "key": keys})


def written(folder: Path) -> dict[int, str]:
    """The split of each row."""
    found = {}
    for split in SPLITS:
        files = sorted(map(str, (folder / f"Split-{split}").iterdir()))
        for record in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator():
            found[tf.train.Example.FromString(record).features.feature["row"].int64_list.value[0]] = split
    return found


def test_no_group_is_trained_on_and_judged(tmp_path: Path) -> None:
    keys = [f"patient {number}" if number else None for number in np.random.default_rng(3).integers(0, 200, 2000)]
    for part in range(4):
        pq.write_table(table(keys[part::4], 10_000 * part), tmp_path / f"{part}.parquet", row_group_size=100)
    result = run(tmp_path / "*.parquet", tmp_path / "out")
    found = written(tmp_path / "out")
    of_group = defaultdict(set)
    for row, split in found.items():
        if (key := keys[row % 10_000 * 4 + row // 10_000]) is not None:
            of_group[key].add(split)
    assert of_group == {key: {split_of_group({"key": key})} for key in {*keys} - {None}}
    (gap,) = result.gaps
    assert says(gap, f"{keys.count(None)} of 2,000 rows …'key', …no group")


def test_a_huge_group_upsets_the_shares_and_is_reported_without_its_name(tmp_path: Path) -> None:
    huge = next(f"big {number}" for number in range(99) if split_of_group({"key": f"big {number}"}) == "eval")
    keys = [huge] * 600 + [f"small {row}" for row in range(400)]
    pq.write_table(table(keys), tmp_path / "a.parquet")
    result = run(tmp_path / "a.parquet", tmp_path / "out")
    count = Counter(split_of_group({"key": key}) for key in keys)
    assert result.rows == count
    each = ", ".join(
        f"{split} {count[split] / 1000:.1%} instead of {share * 10:.1f}%" for split, share in SHARES.items()
    )
    (gap,) = result.gaps
    assert says(gap, f"splits are far from their share …{each}; …'key' …401 groups …eval has 60.0%")
    assert "big" not in gap


def test_a_split_without_a_group_is_refused_with_their_number(tmp_path: Path) -> None:
    keys = [value for value in range(60) if split_of_group({"key": value}) != "test"][:12]
    pq.write_table(table(keys * 50), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="split 'test' is empty, out of 600 rows") as error:
        run(tmp_path / "a.parquet", tmp_path / "out")
    assert "there are 12 such groups" in error.value.hint
    pq.write_table(pa.table({"row": [1] * 5, "key": pa.array([None] * 5, pa.int64())}), tmp_path / "a.parquet")
    with pytest.raises(DataError) as error:
        run(tmp_path / "a.parquet", tmp_path / "out")
    assert "there are no such groups" in error.value.hint


def test_a_group_has_the_same_split_in_all_spans_also_when_they_were_stored(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    path, rows, keys = str(tmp_path / "{SPAN}.parquet"), 0, dict[int, int]()
    for day in range(3):
        own = np.concatenate([np.repeat(1, 500), random.integers(0, 100, 300)])
        pq.write_table(table(own, rows), tmp_path / f"{day}.parquet")
        keys |= dict(enumerate(own.tolist(), rows))
        rows += len(own)
        result = run(path, tmp_path / "out", tmp_path / "store", window="all")
        assert result.read == f"read now: {day}"
        assert written(tmp_path / "out") == {row: split_of_group({"key": key}) for row, key in keys.items()}
    share = sum(key == 1 for key in keys.values()) / rows
    assert split_of_group({"key": 1}) == "train"
    assert any(
        f"of {len({*keys.values()})} groups the largest in train has {share:.1%}" in line for line in result.gaps
    )


def test_eval_is_cut_from_train_by_group(tmp_path: Path) -> None:
    for name, first in (("train", 0), ("test", 5000)):
        pq.write_table(table(np.arange(400) % 40, first), tmp_path / f"{name}.parquet")
    paths: Any = {name: str(tmp_path / f"{name}.parquet") for name in ("train", "test")}
    data = DataConfig(source=ParquetSource(kind="parquet", path=paths), split_key="key")
    result = ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    found = written(tmp_path / "out")
    assert all(found[row] == "test" for row in range(5000, 5400))
    assert all(len({found[row] for row in range(key, 400, 40)}) == 1 for key in range(40))
    assert {*found.values()} == {"train", "eval", "test"}
    assert all("test" not in line for line in result.gaps)


def test_the_bytes_are_the_same_in_beam(tmp_path: Path) -> None:
    keys = pa.array([None if row % 9 == 0 else f"s{row % 70}" for row in range(600)])
    pq.write_table(table(keys), tmp_path / "a.parquet", row_group_size=150)
    source = ParquetSource(kind="parquet", path=str(tmp_path / "a.parquet"))
    same_with_beam(DataConfig(source=source, split_key=("key",)), tmp_path, pipelines=4)
