"""Arrays from Python: NumPy, pandas and pyarrow objects of a function, and .npz files."""

import io
import math
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf
from decoded_examples import decoded
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples.tfexample.encode import encode
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.arrays import source as arrays_module
from headrace.components.sources.arrays.tables import as_table, digest
from headrace.components.spans.find import find_spans
from headrace.configs.schema.data import DataConfig
from headrace.configs.schema.sources import ArraysSource

Give = Callable[[object], ArraysSource]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Iterator[Give]:
    """A source whose function gives an object, or what a function gives."""
    module = ModuleType("given_arrays")
    monkeypatch.setitem(sys.modules, "given_arrays", module)
    arrays_module._cached.clear()

    def source(given: object) -> ArraysSource:
        module.table = given if callable(given) else lambda: given  # type: ignore[attr-defined]
        return ArraysSource(kind="arrays", function="given_arrays.table")

    yield source
    arrays_module._cached.clear()


def read(
    source: ArraysSource, reading: ReadOptions | None = None, declared: dict | None = None
) -> tuple[dict[str, str], list[dict]]:
    """The kinds of the columns, and the tf.Examples as lists of values; None for a missing value."""
    opened = open_source(source, options=reading)
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, declared or {}) for part in parts), ScanResult())
    kinds = {**scan.kinds, **(declared or {})}
    batches = [batch for part in parts for batch in opened.batches(part, kinds)]
    rows = [decoded(record) for batch in batches for record in encode(batch).to_pylist()]
    assert sum(scan.rows.values()) == len(rows)
    return kinds, rows


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (np.array([1, 2], np.int16), "int", [[1], [2]]),
        (np.array([1, 2], ">i4"), "int", [[1], [2]]),
        (np.array([2**63 + 1], np.uint64), "string", [[b"9223372036854775809"]]),
        (np.array([7], np.uint64), "int", [[7]]),
        (np.array([True, False]), "int", [[1], [0]]),
        (np.array([1.5, -0.0], np.float16), "float", [[1.5], [0.0]]),
        (np.array([1, 2, 3, 4])[::-2], "int", [[4], [2]]),
        (np.array(["é", ""]), "string", [["é".encode()], [b""]]),
        (np.array(["a", None, float("nan")], object), "string", [[b"a"], None, None]),
        (np.array([b"\xff", b"ab"]), "bytes", [[b"\xff"], [b"ab"]]),
        (np.array(["2026-11-21", "NaT"], "M8[D]"), "string", [[b"2026-11-21"], None]),
        (np.ma.array([1, 2], mask=[False, True]), "int", [[1], None]),
        (np.array([[1, 2], [3, 4]]), "int list", [[1, 2], [3, 4]]),
        (np.array([[0.5], [1.5]]).T, "float list", [[0.5, 1.5]]),
        (np.array([["a", "b"]]), "string list", [[b"a", b"b"]]),
        (np.zeros([2, 0]), "float list", [[], []]),
        (pd.Series([1.0, float("nan")]), "float", [[1.0], None]),
        (pd.Series([1, None], dtype="Int64"), "int", [[1], None]),
        (pd.Series([True, None], dtype="boolean"), "int", [[1], None]),
        (pd.Series(["b", None, "a"], dtype="category"), "string", [[b"b"], None, [b"a"]]),
        (pd.Categorical([3, 5]), "int", [[3], [5]]),
        (pd.Series(["x", pd.NA], dtype="string"), "string", [[b"x"], None]),
        (pd.Series(pd.to_datetime(["2026-11-21", None])).astype("M8[s]"), "string", [[b"2026-11-21 00:00:00"], None]),
        (pd.Series(pd.to_timedelta([1.5, None], "s")), "float", [[1.5], None]),
        (pd.Series([[1, 2], [], None]), "int list", [[1, 2], [], None]),
        (pa.chunked_array([[1], [None]]), "int", [[1], None]),
        ([1.5, None], "float", [[1.5], None]),
    ],
)
def test_an_object_of_python_becomes_the_documented_kind(give: Give, column: object, kind: str, values: list) -> None:
    kinds, rows = read(give({"x": column}))
    assert (kinds["x"], [row["x"] for row in rows]) == (kind, values)


def test_nan_in_a_numpy_array_is_a_value(give: Give) -> None:
    (row,) = read(give({"x": np.array([np.nan])}))[1]
    assert np.isnan(row["x"][0])


def test_a_data_frame_and_its_table_are_the_same_rows(give: Give) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], 3: [0.5, 1.5]}, index=[7, 8])
    expected = [{"a": [1], "b": [b"x"], "3": [0.5]}, {"a": [2], "b": None, "3": [1.5]}]
    assert read(give(frame))[1] == expected
    assert read(give(pa.Table.from_pandas(frame, preserve_index=False)))[1] == expected
    assert open_source(give(frame)).columns() == ["a", "b", "3"]
    assert read(give(frame), ReadOptions(("b",)))[1] == [{"b": [b"x"]}, {"b": None}]


ARRAYS = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "string": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=st.integers(1, 15), width=st.integers(1, 3), part=st.integers(1, 200))
def test_any_arrays_come_back(
    tmp_path_factory: pytest.TempPathFactory, *, data: st.DataObject, rows: int, width: int, part: int
) -> None:
    arrays: dict[str, Any] = {}
    for kind, values in ARRAYS.items():
        several = data.draw(st.lists(st.lists(values, min_size=width, max_size=width), min_size=rows, max_size=rows))
        arrays |= {kind: np.array([own[0] for own in several]), f"{kind} list": np.array(several)}
    path = tmp_path_factory.mktemp("npz") / "f.npz"
    np.savez(path, **arrays)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SMALLEST_PART", "LARGEST_PART"):
            patch.setattr(arrays_module, name, part)
        patch.setattr("headrace.components.sources.conversion.BATCH", part)
        kinds, found = read(ArraysSource(kind="arrays", path=str(path)))
    assert kinds == {name: name for name in arrays}
    text = np.vectorize(str.encode, otypes=[object])
    expected = {name: text(own) if own.dtype.kind == "U" else own for name, own in arrays.items()}
    assert found == [{name: np.atleast_1d(own[row]).tolist() for name, own in expected.items()} for row in range(rows)]


@pytest.mark.parametrize(
    ("given_", "what"),
    [
        ({"a": np.arange(2), "b": np.arange(3)}, "'b': has 3 rows, but 'a' has 2"),
        ({"a": np.zeros([2, 2, 2])}, r"'a': has shape \(2, 2, 2\)"),
        ({"a": np.array(1)}, "'a': has shape"),
        ({"a": np.array([1j])}, "'a': .*complex128"),
        (
            {"a": np.array([1, None, "x", 2], object)},
            "'a': .*row 2 .*'x' .str., .*earlier one 1",
        ),
        ({"a": pd.Series([1.5, np.nan, 2, "y"])}, "row 3 .*.y. .str., .*earlier one 1.5"),
        ({"a": 7}, "'a': is int; expected a NumPy array"),
        ({"a": np.array([{"x": 1}], object)}, "'a': is of type struct"),
        ({"a": pd.Series([[1, None]])}, "'a': .*a list with a null"),
        ({}, "there are no columns"),
        (np.arange(3), "found numpy.ndarray; expected"),
        (None, "found NoneType"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a': two columns have this name"),
        (pd.DataFrame({"p": pd.period_range("2026-01", periods=2, freq="M")}), "'p': is of type"),
    ],
)
def test_what_is_not_a_table_is_refused_and_the_column_named(give: Give, given_: object, what: str) -> None:
    with pytest.raises(DataError, match=what) as caught:
        read(give(given_))
    assert "given_arrays.table" in str(caught.value)


def test_a_value_of_another_type_than_declared_is_named_or_skipped(give: Give) -> None:
    source = give({"a": np.array(["1", "x", "3"])})
    with pytest.raises(DataError, match=r"'a': row 1 .* as int") as caught:
        read(source, declared={"a": "int"})
    assert caught.value.file == "given_arrays.table"
    assert read(source, ReadOptions(None, skip_bad=True), {"a": "int"})[1] == [{"a": [1]}, {"a": [3]}]


def test_an_error_in_the_function_names_it(give: Give) -> None:
    def table() -> object:
        raise KeyError("no such thing")

    with pytest.raises(DataError, match=r"data\.source\.function: given_arrays\.table raised KeyError.*arrays\.py:\d+"):
        find_spans(DataConfig(source=give(table)))


@pytest.mark.parametrize("path", ["no_such_module.table", "given_arrays.missing"])
def test_a_function_that_is_not_there_is_named(give: Give, path: str) -> None:
    give({})
    with pytest.raises(DataError, match=path.partition(".")[0]):
        find_spans(DataConfig(source=ArraysSource(kind="arrays", function=path)))


def test_the_fingerprint_is_that_of_the_content(give: Give) -> None:
    tables = [{"a": [1, 2]}, {"a": np.array([1, 2])}, {"a": [1, 3]}, {"b": [1, 2]}, {"a": [1.0, 2.0]}, {"a": [1, None]}]
    marks = [find_spans(DataConfig(source=give(table))).fingerprint for table in tables]
    assert marks[0] == marks[1]
    assert len(set(marks)) == 5


def test_chunks_slices_and_categories_leave_the_digest_as_it_is() -> None:
    values = {"i": [1, None, 3], "s": ["a", None, ""], "l": [[1], None, []], "b": [True, False, None]}
    whole = as_table(values)
    chunks = pa.concat_tables([pa.table(values).slice(n, 1) for n in range(3)])
    longer = pa.concat_tables([pa.table(values)] * 3).combine_chunks().slice(3, 3)
    assert digest(whole) == digest(as_table(chunks)) == digest(as_table(longer))
    swapped = {**values, "l": [[], None, [1]]}
    assert digest(as_table(swapped)) != digest(whole)


def test_the_function_runs_once_for_a_manifest_and_its_examples(give: Give, tmp_path: Path) -> None:
    calls = []

    def table() -> object:
        calls.append(1)
        return {"a": np.arange(300), "s": np.array([f"row {i}" for i in range(300)])}

    config = DataConfig(source=give(table), shards=2)
    found = ingest(config, find_spans(config), tmp_path / "out", lambda _work: serial_map)
    assert (len(calls), sum(found.rows.values())) == (1, 300)
    files = sorted(map(str, (tmp_path / "out").rglob("*.gz")))
    rows = [decoded(record.numpy()) for record in tf.data.TFRecordDataset(files, "GZIP")]
    assert sorted((row["a"][0], row["s"][0]) for row in rows) == [(i, f"row {i}".encode()) for i in range(300)]


def test_a_function_that_gives_something_else_in_the_same_run_is_noticed(give: Give, tmp_path: Path) -> None:
    calls = []

    def table() -> object:
        calls.append(1)
        return {"a": np.arange(300) + len(calls)}

    config = DataConfig(source=give(table))
    manifest = find_spans(config)
    arrays_module._cached.clear()  # as in the process of the next component
    with pytest.raises(DataError, match="other data than at the start"):
        ingest(config, manifest, tmp_path / "out", lambda _work: serial_map)


def npz(folder: Path, **arrays: Any) -> ArraysSource:
    np.savez(folder / "f.npz", **arrays)
    return ArraysSource(kind="arrays", path=str(folder / "f.npz"))


def test_an_npz_file_is_found_by_its_path(tmp_path: Path) -> None:
    source = npz(tmp_path, a=np.arange(3), b=np.eye(3))
    assert [file.path for file in find_spans(DataConfig(source=source)).spans[0].files] == [str(tmp_path / "f.npz")]
    assert read(source)[1][1] == {"a": [1], "b": [0.0, 1.0, 0.0]}


def test_objects_in_an_npz_file_are_not_unpickled(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'a': is an array of Python objects") as caught:
        read(npz(tmp_path, a=np.array([None, "x"], object)))
    assert caught.value.file == str(tmp_path / "f.npz")


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 cut short"])
def test_a_damaged_npz_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"f\.npz: is not a \.npz file"):
        read(ArraysSource(kind="arrays", path=str(tmp_path / "f.npz")))


def test_a_changed_byte_in_an_npz_file_is_noticed(tmp_path: Path) -> None:
    source = npz(tmp_path, a=np.arange(1000))
    content = bytearray((tmp_path / "f.npz").read_bytes())
    content[4000] ^= 1
    (tmp_path / "f.npz").write_bytes(content)
    with pytest.raises(DataError, match="CRC"):
        read(source)


def test_a_npy_file_is_distinguished_from_an_npz_file(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.arange(3))
    with pytest.raises(DataError, match="one array without a name"):
        read(ArraysSource(kind="arrays", path=str(tmp_path / "f.npy")))


def write_header(path: Path, shape: tuple[int, ...], held: bytes, compression: int) -> None:
    """An array "a" whose header promises a shape of float64, and what is there of it."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("a.npy", head.getvalue() + held)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["stored", "deflated"])
@pytest.mark.parametrize("shape", [(1 << 58,), (1 << 30, 1 << 30), (3,)], ids=str)
def test_array_whose_header_promises_more_than_is_there_is_named_before_memory_is_asked_for(
    tmp_path: Path, shape: tuple[int, ...], compression: int
) -> None:
    write_header(tmp_path / "f.npz", shape, bytes(16), compression)
    with pytest.raises(DataError, match=f"'a': claims {8 * math.prod(shape):,} bytes.* has 16") as caught:
        read(ArraysSource(kind="arrays", path=str(tmp_path / "f.npz")))
    assert caught.value.file == str(tmp_path / "f.npz")


def test_array_that_the_archive_itself_makes_larger_than_the_file_is_named(tmp_path: Path) -> None:
    write_header(tmp_path / "f.npz", (1 << 40,), bytes(16), zipfile.ZIP_STORED)
    content = bytearray((tmp_path / "f.npz").read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", (1 << 32) - 2)  # the size that the central directory gives
    (tmp_path / "f.npz").write_bytes(content)
    with pytest.raises(DataError, match="'a': claims 4,294,967,294 bytes") as caught:
        read(ArraysSource(kind="arrays", path=str(tmp_path / "f.npz")))
    assert caught.value.file == str(tmp_path / "f.npz")


def test_huge_npy_file_is_not_read_to_say_that_it_is_none(tmp_path: Path) -> None:
    with open(tmp_path / "f.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (1 << 58,)})
    with pytest.raises(DataError, match="one array without a name"):
        read(ArraysSource(kind="arrays", path=str(tmp_path / "f.npy")))
