"""Splits by time: the oldest rows first, the newest last, whatever their order in the files."""

import datetime as dt
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
        (["2024-02-29", "2026-02-29"], pa.string(), "'2026-02-29' is not a date"),
        (["2026-11-23 08:15", "2026-11-23 8:15 PM"], pa.string(), "'2026-11-23 8:15 PM' is not a date"),
        ([b"2026-11-23"], pa.binary(), "a column of binary "),
    ],
)
def test_a_value_without_an_order_in_time_is_refused(values: list[Any], arrow: pa.DataType, what: str) -> None:
    with pytest.raises(DataError) as error:
        count_times([batch(values, arrow)], "t", "in/a.csv")
    assert str(error.value).startswith(f"in/a.csv: column 't': {what}")


@pytest.mark.parametrize(
    "texts",
    [
        ["2026-10-25T02:30:00+02:00", "2026-10-25T02:15:00+01:00"],  # the hour that comes twice
        ["2026-11-23T23:00:00+09:00", "2026-11-23T15:00:00Z", "2026-11-23T11:00:00-0500"],
        ["2026-11-23T08:00:00", "2026-11-23 09:00:00"],
        ["1969-12-31 23:59:59.999999999", "1970-01-01", "1970-01-01T00:00:00.5Z", "1970-01-01 00:00:01 UTC"],
        ["0001-01-01", "1600-02-29", "9999-12-31T23:59"],
    ],
)
def test_texts_are_in_the_order_of_their_instants(texts: list[str]) -> None:
    shares = {str(number): 1 for number in range(len(texts))}
    split = TimeSplit.of("t", [count_times([batch(texts[::-1])], "t")], shares)
    assert split.numbers(batch(texts)).tolist() == list(range(len(texts)))


INSTANTS = st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))


@given(st.lists(st.tuples(INSTANTS, st.none() | ZONES, st.sampled_from("T ")), min_size=1, max_size=20))
def test_texts_are_the_times_that_python_reads_in_them(
    times: list[tuple[dt.datetime, dt.timezone | None, str]],
) -> None:
    texts = [when.replace(tzinfo=zone).isoformat(separator) for when, zone, separator in times]
    aware = [when.replace(tzinfo=zone or dt.UTC) for when, zone, _ in times]
    expected = Counter(
        (when - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) for when in aware
    )
    found = count_times([batch(texts)], "t").to_pydict()
    assert dict(zip(found["time"], found["rows"], strict=True)) == expected


def test_times_are_counted_over_batches() -> None:
    found = count_times([batch([3, 1, 3]), batch([], pa.int64()), batch([3, 2])], "t").to_pydict()
    assert Counter(dict(zip(found["time"], found["rows"], strict=True))) == {1: 1, 2: 1, 3: 3}
