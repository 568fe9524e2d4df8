"""Splits by time: the oldest rows first, the newest last, whatever their order in the files."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.example_gen.required import RequiredColumn
from headrace.components.example_gen.shards.time_split import TimeSplit, count_times
from headrace.components.sources import serial_map
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import ParquetSource

SHARES = {"train": 8, "eval": 1, "test": 1}


def batch(values: Any, arrow: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, arrow)], names=["t"])


@given(st.lists(st.lists(st.integers(-40, 40), min_size=1), min_size=1, max_size=4))
def test_splits_follow_the_order_of_time_and_exceed_their_share_by_one_time_at_most(parts: list[list[int]]) -> None:
    split = TimeSplit.of("t", [count_times([batch(part, pa.int64())], "t") for part in parts], SHARES)
    times = np.array([time for part in parts for time in part])
    numbers = split.numbers(batch(times))
    assert (np.diff(numbers[np.argsort(times, kind="stable")]) >= 0).all()
    assert all(len({*numbers[times == time]}) == 1 for time in {*times.tolist()})
    for first, share in ((1, 0.8), (2, 0.9)):
        earlier = np.sum(numbers < first)
        assert earlier >= share * len(times) - 1e-9
        newest = times[numbers < first].max()
        assert np.sum(times < newest) < share * len(times) + 1e-9


@pytest.mark.parametrize("kind", ["int", "float", "date"])
def test_examples_of_many_parts_are_divided_by_their_time(tmp_path: Path, kind: str) -> None:
    order = np.random.default_rng(1).permutation(1000)
    day = np.datetime64("2024-01-01") + order
    times = {"int": order, "float": order / 8, "date": np.datetime_as_string(day)}[kind]
    labels = [None if row % 10 == 0 else row % 2 for row in order.tolist()]
    for part in (0, 1):
        rows = slice(part * 500, part * 500 + 500)
        table = {"order": order[rows], "t": times[rows], "y": pa.array(labels[rows], pa.int64())}
        pq.write_table(pa.table(table), tmp_path / f"{part}.parquet")
    source = ParquetSource(kind="parquet", path=str(tmp_path / "*.parquet"))
    data = DataConfig(source=source, split_by="t", shards=2)
    ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map, required=RequiredColumn("y"))
    labelled = [row for row in range(1000) if row % 10]
    found = {split: orders(tmp_path / "out" / f"Split-{split}") for split in SHARES}
    assert found == {"train": labelled[:720], "eval": labelled[720:810], "test": labelled[810:]}


def orders(folder: Path) -> list[int]:
    records = tf.data.TFRecordDataset(sorted(map(str, folder.iterdir())), "GZIP").as_numpy_iterator()
    return sorted(tf.train.Example.FromString(one).features.feature["order"].int64_list.value[0] for one in records)


@pytest.mark.parametrize(
    ("values", "arrow", "what"),
    [
        ([1, None], pa.int64(), "a row has no value"),
        ([1.5, float("nan")], pa.float64(), "a row has no value"),
        (["2026-11-23", "23.11.2026"], pa.string(), "'23.11.2026' is not a date"),
        ([b"2026-11-23"], pa.binary(), "a column of binary has no order in time"),
    ],
)
def test_a_value_without_an_order_in_time_is_refused(values: list[Any], arrow: pa.DataType, what: str) -> None:
    with pytest.raises(DataError) as error:
        count_times([batch(values, arrow)], "t", "in/a.csv")
    assert str(error.value).startswith(f"in/a.csv: column 't': {what}")


def test_times_are_counted_over_batches() -> None:
    found = count_times([batch([3, 1, 3]), batch([], pa.int64()), batch([3, 2])], "t").to_pydict()
    assert Counter(dict(zip(found["time"], found["rows"], strict=True))) == {1: 1, 2: 1, 3: 3}
