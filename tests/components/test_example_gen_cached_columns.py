"""Columns cached from the scan are those that a second reading would give, or are not used."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.components.example_gen.column_cache import ColumnCache
from headrace.components.examples.tfexample.framing import framed_examples
from headrace.components.sources import open_source, serial_map
from headrace.components.sources.csv import blocks
from headrace.components.sources.jsonl import blocks as json_blocks
from headrace.components.sources.tfrecord import frames
from headrace.configs.schema.sources import CsvSource, JsonlSource, TfrecordSource

CELLS = st.sampled_from(["", "1", "-7", "0.5", "1e300", "nan", "9007199254740993", "007", "text", "é", '"x,y"', '"NA"'])
CELLS |= st.sampled_from(["NA", "2020-01-01", "true", "12:30"])


def scanned(path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch, **more: Any) -> tuple[Any, ColumnCache]:
    path.mkdir(exist_ok=True, parents=True)
    file, folder = path / "data.csv", path / "columns"
    file.write_text("\n".join(["a,b", *lines, ""]), encoding="utf-8")
    folder.mkdir(exist_ok=True)
    monkeypatch.setattr(blocks, "CHUNK", 16)
    source = open_source(CsvSource(kind="csv", path=str(file), **more), [str(file)])
    return source, ColumnCache.scan(source, source.parts(serial_map), {}, serial_map, folder)


def tables(source: Any, kept: ColumnCache) -> list[pa.Table]:
    kinds = dict(kept.result.kinds)
    read = [pa.Table.from_batches(source.batches(part, kinds)) for part in kept.parts]
    kept_ = [pa.Table.from_batches(kept.batches(number, kinds)) for number in range(len(kept.parts))]
    return [pa.concat_tables(read).combine_chunks(), pa.concat_tables(kept_).combine_chunks()]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=30))
def test_columns_that_fit_are_those_of_a_second_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str, str]]
) -> None:
    rows = [row for row in rows if row != ("", "")] or [("1", "1")]
    source, kept = scanned(tmp_path, [f"{a},{b}" for a, b in rows], monkeypatch, null_values=("NA",))
    if kept.fits(kept.result.kinds):
        read, again = tables(source, kept)
        assert read.schema == again.schema
        assert str(read.to_pydict()) == str(again.to_pydict())


def test_a_column_that_widens_to_float_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, kept = scanned(tmp_path, [*(["1,"] * 20), *(["0.5,2"] * 20)], monkeypatch)
    assert kept.result.kinds == {"a": "float", "b": "int"}
    assert kept.fits(kept.result.kinds)
    read, again = tables(source, kept)
    assert read.equals(again)


def test_a_column_that_widens_to_text_has_to_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, kept = scanned(tmp_path, [*(["1,1"] * 20), *(["text,2"] * 20)], monkeypatch)
    assert kept.result.kinds == {"a": "string", "b": "int"}
    assert not kept.fits(kept.result.kinds)


def test_nothing_is_kept_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = scanned(tmp_path, ["1,2"], monkeypatch)
    kept = ColumnCache.scan(source, source.parts(serial_map), {}, serial_map, None)
    assert kept.result.kinds == {"a": "int", "b": "int"}
    assert not kept.fits(kept.result.kinds)


def scanned_lines(path: Path, rows: Sequence[dict[str, Any] | str]) -> tuple[Any, ColumnCache]:
    """JSON lines, a few at a time; a text is a line as it is."""
    (path / "columns").mkdir(parents=True)
    file = path / "data.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    file.write_text("\n".join(lines), encoding="utf-8")
    source = open_source(JsonlSource(kind="jsonl", path=str(file)), [str(file)])
    return source, ColumnCache.scan(source, source.parts(serial_map), {}, serial_map, path / "columns")


def scanned_records(path: Path, rows: Sequence[dict[str, Any]]) -> tuple[Any, ColumnCache]:
    """TFRecords, of which each row decides alone which features it has and of what kind."""
    (path / "columns").mkdir(parents=True)
    file = path / "data.tfrecord"
    records = [framed_examples(pa.RecordBatch.from_pylist([row])) for row in rows if row]
    file.write_bytes(b"".join(bytes(memoryview(record.buffers()[2])) for record in records))
    source = open_source(TfrecordSource(kind="tfrecord", path=str(file)), [str(file)])
    return source, ColumnCache.scan(source, source.parts(serial_map), {}, serial_map, path / "columns")


VALUES = st.sampled_from([None, 1, -7, 2**53 + 1, 0.5, [], [1], [2, 3], [0.5]])
ROWS = st.lists(st.fixed_dictionaries({}, optional={"a": VALUES, "b": VALUES, "c": st.just("é")}), min_size=1)
SCANS = [scanned_lines, scanned_records]
Scanned = Callable[[Path, Sequence[dict[str, Any]]], tuple[Any, ColumnCache]]


@pytest.mark.parametrize("scan", SCANS, ids=["jsonl", "tfrecord"])
@settings(max_examples=100, deadline=None)
@given(rows=ROWS)
@example(rows=[{"a": None}, {"a": 0.5}])
@example(rows=[{"a": 0.5}, {"a": 2**53 + 1}])
@example(rows=[{"a": 2**53 + 1}, {"a": 0.5}])
def test_values_that_fit_are_those_of_a_second_reading(
    tmp_path_factory: pytest.TempPathFactory, scan: Scanned, rows: list[dict[str, Any]]
) -> None:
    rows = [row for row in rows if row] or [{"c": "é"}]
    with pytest.MonkeyPatch.context() as patch:
        for module in (json_blocks, frames):
            patch.setattr(module, "CHUNK", 20)
        source, kept = scan(tmp_path_factory.mktemp("kept"), rows)
        if kept.fits(kept.result.kinds):
            read, again = tables(source, kept)
            assert read.column_names == again.column_names
            assert str(read.to_pydict()) == str(again.to_pydict())


@pytest.mark.parametrize("scan", SCANS, ids=["jsonl", "tfrecord"])
def test_an_empty_list_before_others_is_not_taken_for_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scan: Scanned
) -> None:
    for module in (json_blocks, frames):
        monkeypatch.setattr(module, "CHUNK", 20)
    rows: list[dict[str, Any]] = [{"a": [], "b": 1}, {"a": None, "b": 1}, {"a": [1, 2], "b": 1}]
    if scan is scanned_records:
        rows = [{"a": pa.array([[]], pa.list_(pa.int64()))[0], "b": 1}, {"b": 1}, {"a": [1, 2], "b": 1}]
    source, kept = scan(tmp_path, rows)
    assert kept.result.kinds == {"a": "int list", "b": "int"}
    assert not kept.fits(kept.result.kinds)
    (part,) = kept.parts
    batches = source.batches(part, kept.result.kinds)
    assert [value for batch in batches for value in batch["a"].to_pylist()] == [[], None, [1, 2]]


def test_lines_without_a_column_are_counted_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_blocks, "CHUNK", 6)
    source, kept = scanned_lines(tmp_path, [*["{}"] * 10, '{"a": 1}', "{}"])
    assert sum(kept.result.rows.values()) == 12
    assert kept.fits(kept.result.kinds)
    read, again = tables(source, kept)
    assert read.equals(again)
    assert again.num_rows == 12
