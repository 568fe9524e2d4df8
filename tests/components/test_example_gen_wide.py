"""Tables of many columns: the work grows with them and no faster, and columns that are worked on together come out as
columns alone do.
"""

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.common.record_batches import concatenated, in_one_batch
from headrace.components.example_gen.ingest import ingest
from headrace.components.example_gen.shards.spill import to_columns, to_rows
from headrace.components.examples.arrow_columns import FEW_ROWS, MANY_COLUMNS, worth_stacking
from headrace.components.examples.row_hash import row_hash
from headrace.components.examples.tfexample.encode import encode
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.examples.tfexample.rounding import RoundingAccumulator
from headrace.components.sources import serial_map
from headrace.components.sources.arrays import source as arrays_module
from headrace.components.sources.jsonl.source import JsonlFiles
from headrace.components.sources.tfrecord import source as tfrecord_module
from headrace.components.sources.tfrecord.source import TfrecordFiles
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig

ROWS = 100
FEWER, MORE = 400, 800
"""Columns. SQLite has 2,000 at most."""
MOST_RATIO = 2.2
MOST_CALLS = {"sql": 1500}
"""Calls for each further column in a whole run of ExampleGen, else 400. Values of databases are Python's objects, so
calls grow with those too.
"""


def table(number: int) -> pa.Table:
    """Columns of floats, integers and texts, every third of them with gaps."""
    random = np.random.default_rng(0)
    found = {}
    for place in range(number):
        values = [random.normal(size=ROWS), random.integers(-1000, 1000, ROWS), random.integers(0, 9, ROWS).astype(str)]
        mask = random.random(ROWS) < 0.2 if place % 3 == 0 else None
        found[f"column_{place}"] = pa.array(values[place % 3], mask=mask)
    return pa.table(found)


def csv(given: pa.Table, folder: Path) -> dict[str, Any]:
    pyarrow.csv.write_csv(given, folder / "data.csv")
    return {"kind": "csv", "path": str(folder / "data.csv")}


def parquet(given: pa.Table, folder: Path) -> dict[str, Any]:
    pq.write_table(given, folder / "data.parquet")
    return {"kind": "parquet", "path": str(folder / "data.parquet")}


def jsonl(given: pa.Table, folder: Path) -> dict[str, Any]:
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, given.to_pylist())), encoding="utf-8")
    return {"kind": "jsonl", "path": str(folder / "data.jsonl")}


def nested(given: pa.Table, folder: Path) -> dict[str, Any]:
    """An array of objects that have all columns in another object, but for the first."""
    first, *others = given.column_names
    rows = [{first: row[first], "in": {name: row[name] for name in others}} for row in given.to_pylist()]
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    return {"kind": "json", "path": str(folder / "data.json")}


def npz(given: pa.Table, folder: Path) -> dict[str, Any]:
    arrays: dict[str, Any] = {name: np.array(given[name].drop_null().to_pylist()[:60]) for name in given.column_names}
    np.savez(folder / "data.npz", **arrays)
    return {"kind": "arrays", "path": str(folder / "data.npz")}


def function(given: pa.Table, _folder: Path) -> dict[str, Any]:
    sys.modules["given_wide"] = module = ModuleType("given_wide")
    module.data = lambda: given  # type: ignore[attr-defined]
    return {"kind": "arrays", "function": "given_wide.data"}


def avro(given: pa.Table, folder: Path) -> dict[str, Any]:
    names = {pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}
    fields = [{"name": field.name, "type": ["null", names[field.type]]} for field in given.schema]
    with (folder / "data.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, given.to_pylist())
    return {"kind": "avro", "path": str(folder / "data.avro")}


def generator(given: pa.Table, _folder: Path) -> dict[str, Any]:
    sys.modules["given_wide"] = module = ModuleType("given_wide")
    rows = given.to_pylist()
    module.rows = lambda: iter(rows)  # type: ignore[attr-defined]
    return {"kind": "python", "function": "given_wide.rows"}


def sql(given: pa.Table, folder: Path) -> dict[str, Any]:
    with sqlite3.connect(folder / "data.db") as connection:
        connection.execute(f"create table data ({', '.join(given.column_names)})")
        marks = ", ".join("?" * given.num_columns)
        rows = zip(*(column.to_pylist() for column in given.columns), strict=True)
        connection.executemany(f"insert into data values ({marks})", rows)
    return {"kind": "sql", "url": f"sqlite:///{folder / 'data.db'}", "table": "data"}


def tfrecord(given: pa.Table, folder: Path) -> dict[str, Any]:
    records = framed_examples(in_one_batch(given))
    (folder / "data.tfrecord").write_bytes(memoryview(records.buffers()[2]))
    return {"kind": "tfrecord", "path": str(folder / "data.tfrecord")}


def calls(source: dict[str, Any], output: Path) -> int:
    """Functions that ExampleGen calls, of Python and of C, in a whole run."""
    data = DataConfig.model_validate({"source": source})
    count = 0
    arrays_module._cached.clear()

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        ingest(data, find_spans(data), output, lambda _work: serial_map)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "write", [csv, parquet, jsonl, nested, npz, function, sql, tfrecord], ids=lambda write: write.__name__
)
def test_the_calls_of_a_run_grow_with_the_columns_and_no_faster(
    write: Callable[[pa.Table, Path], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfrecord_module, "HEAD_RECORDS", 2)  # each is read feature by feature
    found = []
    for number in (FEWER, MORE):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = write(table(number), folder)
        if number == FEWER:
            calls(source, folder / "warm")  # what is imported counts for neither
        found.append(calls(source, folder / "out"))
    fewer, more = found
    assert more / fewer < MOST_RATIO
    assert (more - fewer) / (MORE - FEWER) < MOST_CALLS.get(write.__name__, 400)


@pytest.mark.parametrize("write", [jsonl, nested, tfrecord], ids=lambda write: write.__name__)
def test_what_the_scan_had_to_parse_is_not_parsed_again(
    write: Callable[[pa.Table, Path], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(*_: object) -> None:
        raise AssertionError("read again")

    for source in (JsonlFiles, TfrecordFiles):
        monkeypatch.setattr(source, "batches", again)
    data = DataConfig.model_validate({"source": write(table(MANY_COLUMNS), tmp_path)})
    found = ingest(data, find_spans(data), tmp_path / "out", lambda _work: serial_map)
    assert sum(found.rows.values()) == ROWS
    assert dict(Counter(found.kinds.values())) == {"float": 11, "int": 11, "string": 10}


VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats(width=32)),
    "float32": (pa.float32(), st.floats(width=32)),
    "string": (pa.string(), st.text(max_size=5) | st.just("é" * 200)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "ints": (pa.list_(pa.int64()), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)),
    "floats": (pa.large_list(pa.float64()), st.lists(st.floats(width=32), max_size=3)),
    "strings": (pa.list_(pa.string()), st.lists(st.text(max_size=200), max_size=3)),
    "nothing": (pa.null(), st.nothing()),
}


@st.composite
def wide_batches(draw: st.DrawFn) -> pa.RecordBatch:
    """A few columns, each again and again under other names: more would take hypothesis too long."""
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    rows = draw(st.integers(1, 5))
    arrays = [draw(arrays_of(kind, rows)) for kind in kinds]
    count = draw(st.integers(MANY_COLUMNS, MANY_COLUMNS + 5))
    prefix = draw(st.sampled_from(["c", "é", "n" * 130]))
    start = draw(st.integers(0, rows - 1))
    names = [f"{prefix}{place * 7919 % 100:02}" for place in range(count)]
    return pa.RecordBatch.from_arrays([arrays[place % len(arrays)] for place in range(count)], names).slice(start)


def arrays_of(kind: str, rows: int) -> st.SearchStrategy[pa.Array]:
    arrow, value = VALUES[kind]
    return st.lists(st.none() | value, min_size=rows, max_size=rows).map(lambda values: pa.array(values, arrow))


def many_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch again and again, until its columns are worked on one by one."""
    again = concatenated([batch] * -(-FEW_ROWS // batch.num_rows))
    assert worth_stacking(batch)
    assert not worth_stacking(again)
    return again


@settings(max_examples=60, deadline=None)
@given(wide_batches())
def test_columns_in_stacks_come_out_as_columns_alone_do(batch: pa.RecordBatch) -> None:
    again = many_rows(batch)
    rows, names = batch.num_rows, batch.schema.names
    assert encode(batch).to_pylist() == encode(again).to_pylist()[:rows]
    assert framed_examples(batch).to_pylist() == framed_examples(again).to_pylist()[:rows]
    assert row_hash(batch, names, 3).tolist() == row_hash(again, names, 3).tolist()[:rows]
    beside, alone = to_columns(to_rows(batch)), to_columns(to_rows(again).slice(0, rows))
    assert beside.schema.equals(alone.schema)
    assert encode(beside).to_pylist() == encode(alone).to_pylist() == encode(batch).to_pylist()


@settings(max_examples=40, deadline=None)
@given(wide_batches())
def test_roundings_of_stacks_are_those_of_columns_alone(batch: pa.RecordBatch) -> None:
    stacked, alone = RoundingAccumulator(), RoundingAccumulator()
    stacked.checked(batch)
    for name in batch.schema.names:
        alone.checked(batch.select([name]))
    assert stacked.keys() == alone.keys()
    for name, found in stacked.items():
        own = alone[name]
        assert (found.count, found.error, found.vanished) == (own.count, own.error, own.vanished)
        assert found.mean == pytest.approx(own.mean, rel=1e-9)
        assert found.squares == pytest.approx(own.squares, rel=1e-9)
        assert found.errors == pytest.approx(own.errors, rel=1e-9)


def test_lost_digits_are_noted_of_a_column_among_many() -> None:
    found, times = RoundingAccumulator(), 1700000000.5 + 7.0 * np.arange(100)
    batch = {**{f"c{place}": pa.array(np.arange(100.0)) for place in range(MANY_COLUMNS)}, "time": pa.array(times)}
    found.checked(pa.RecordBatch.from_pydict(batch))
    errors = times - times.astype(np.float32)
    assert found["time"].share == pytest.approx(np.sqrt(np.mean(errors**2)) / times.std(), rel=1e-9)
    assert found["c3"].share == 0


def test_a_number_beyond_float32_among_many_columns_is_refused_by_the_name_of_its_column() -> None:
    batch = {f"c{place}": pa.array([1.0, 1e39 if place == 7 else None]) for place in range(MANY_COLUMNS)}
    with pytest.raises(DataError, match="beyond the largest float32") as caught:
        RoundingAccumulator().checked(pa.RecordBatch.from_pydict(batch))
    assert caught.value.column == "c7"
