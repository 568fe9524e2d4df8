"""Reading Parquet: every stored type against pyarrow's own reading."""

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parquet_files import one, read, scan_of, write

from headrace.common.errors import DataError
from headrace.components.sources import ReadOptions
from headrace.components.sources.parquet import source as parquet_module
from headrace.components.sources.types import kind_of_decimal

NOON = dt.datetime(2026, 11, 21, 12, 30)


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, None, -3], pa.int8()), "int", [1, None, -3]),
        (pa.array([4_000_000_000], pa.uint32()), "int", [4_000_000_000]),
        (pa.array([2**63 - 1], pa.uint64()), "int", [2**63 - 1]),
        (pa.array([1, 2**64 - 1], pa.uint64()), "string", [b"1", b"18446744073709551615"]),
        (pa.array([True, None, False]), "int", [1, None, 0]),
        (pa.array([[], None], pa.list_(pa.null())), "missing", [None, None]),
        (pa.array(np.array([1.5, -2], np.float16)), "float", [1.5, -2.0]),
        (pa.array([1.5, None], pa.float32()), "float", [1.5, None]),
        (pa.array([0.25], pa.float64()), "float", [0.25]),
        (pa.array(["é", "", None]), "string", ["é".encode(), b"", None]),
        (pa.array(["a"], pa.large_string()), "string", [b"a"]),
        (pa.array(["b", "a", None, "b"]).dictionary_encode(), "string", [b"b", b"a", None, b"b"]),
        (pa.array([b"\xff", None]), "bytes", [b"\xff", None]),
        (pa.array([b"\x00\x01"], pa.binary(2)), "bytes", [b"\x00\x01"]),
        (pa.array([Decimal("12.50"), None]), "float", [12.5, None]),
        (pa.array([Decimal("7.25")], pa.decimal256(76, 38)), "float", [7.25]),
        (pa.array([Decimal(10**18 - 1), None], pa.decimal128(18, 0)), "int", [10**18 - 1, None]),
        (pa.array([Decimal(10**18 + 1)], pa.decimal128(19, 0)), "string", [b"1000000000000000001"]),
        (pa.array([dt.date(2026, 11, 21), None]), "string", [b"2026-11-21", None]),
        (pa.array([dt.time(12, 30, 1)], pa.time32("s")), "string", [b"12:30:01.000"]),
        (pa.array([NOON], pa.timestamp("ms")), "string", [b"2026-11-21 12:30:00.000"]),
        (
            pa.array([NOON.replace(tzinfo=dt.UTC)], pa.timestamp("us", "Asia/Kolkata")),
            "string",
            [b"2026-11-21 12:30:00.000000Z"],
        ),
        (pa.array([dt.timedelta(minutes=1.5)]), "float", [90.0]),
        (pa.nulls(2), "missing", [None, None]),
    ],
)
def test_a_stored_type_becomes_the_documented_kind(tmp_path: Path, column: pa.Array, kind: str, values: list) -> None:
    assert one(tmp_path, column) == (kind, values)


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array([1, None]), "float", [1.0, None]),
        (pa.array([2**60 + 1]), "float", [float(2**60)]),
        (pa.array(["7", None]), "int", [7, None]),
        (pa.array(["7", "8"]).dictionary_encode(), "int", [7, 8]),
        (pa.array([7]), "string", [b"7"]),
        (pa.array([True]), "string", [b"true"]),
        (pa.array([3.0]), "int", [3]),
        (pa.array([3.0, math.nan, None]), "int", [3, None, None]),
        (pa.array([3.0, math.nan, None], pa.float32()), "int list", [3, None, None]),
        (pa.array(["a"]), "bytes", [b"a"]),
        (pa.array([b"a"]), "string", [b"a"]),
        (pa.array([Decimal("12.50")]), "string", [b"12.50"]),
        (pa.array([Decimal("12")], pa.decimal128(30, 0)), "int", [12]),
        (pa.array([dt.date(1970, 1, 3), None]), "int", [2, None]),
        (pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 500_000)]), "int", [-1]),
        (pa.array([5, None]), "int list", [5, None]),
    ],
)
def test_a_declared_type_wins(tmp_path: Path, column: pa.Array, kind: str, values: list) -> None:
    assert one(tmp_path, column, kind) == (kind, values)


@pytest.mark.parametrize(
    ("column", "kind", "what"),
    [
        (pa.array(["7", "x"]), "int", "row 1 of row group 0 .* int: .*'x'"),
        (pa.array([1.0, 2.5]), "int", "row 1 of row group 0 .*2.5"),
        (pa.array([b"a", b"\xff"]), "string", "row 1 of row group 0 .*UTF8"),
        (pa.array([dt.date(1970, 1, 3)]), "float", "date32.* cannot be read as float"),
        (pa.array([[1]]), "int", "the type for lists is `int list`"),
        (pa.array([[1], [2, None]]), "int list", "row 1 of row group 0 .* null"),
        (pa.array([["x"]]), "int list", "cannot be read as int"),
        (pa.array([[1.0], [2.0, math.nan]]), "int list", "row 1 of row group 0 .* NaN"),
        (pa.array([1.0, math.inf]), "int", "row 1 of row group 0 .*inf"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_named_with_its_place(
    tmp_path: Path, column: pa.Array, kind: str, what: str
) -> None:
    with pytest.raises(DataError, match=what) as caught:
        one(tmp_path, column, kind)
    assert (caught.value.file, caught.value.column) == (str(tmp_path / "f.parquet"), "x")


def test_skipped_rows_are_the_same_in_the_scan_and_the_batches(tmp_path: Path) -> None:
    table = {"n": ["1", "x", "3", "4", "y"], "l": [[1], [1], [1, None], None, [2]], "i": [0, 1, 2, 3, 4]}
    path = write(tmp_path / "f.parquet", table, row_group_size=2)
    skip, declared = ReadOptions(None, skip_bad=True), {"n": "int"}
    scan = scan_of(path, skip, declared)
    assert (scan.rows, scan.skipped.count) == ({str(path): 2}, 3)
    assert "row 1 of row group 0" in scan.skipped.reported[0]
    assert [row["i"] for row in read(path, skip, declared)[1]] == [[0], [3]]


def test_invalid_utf_8_in_a_string_column_is_not_a_value(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    with pytest.raises(DataError, match=r"row 0 of row group 0 .*UTF8"):
        one(tmp_path, bad)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2], [], None]),
        pa.array([[1, 2], [], None], pa.large_list(pa.int32())),
        pa.array([[1, 2], [], None], pa.list_(pa.uint64())),
        pa.array([["a"], [], None, ["b", ""]]),
        pa.array([["a"], [], None]).cast(pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)),
        pa.array([[0.5], [1.5, 2.5]], pa.list_(pa.float32())),
        pa.array([[True, False]]),
        pa.array([[b"\xff"], None]),
    ],
)
def test_lists_become_multi_valued_features(tmp_path: Path, column: pa.Array) -> None:
    path = write(tmp_path / "f.parquet", {"x": column})
    kinds, rows = read(path)
    assert kinds["x"].endswith(" list")
    expected = [
        value and [item.encode() if isinstance(item, str) else item for item in value]
        for value in pq.read_table(path)["x"].to_pylist()
    ]
    assert [row["x"] for row in rows] == expected


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "map"),
        (pa.array([[[1]]]), "lists of lists"),
        (pa.array([[[{"a": 1, "b": 2}]]]), "lists of lists"),
        (pa.array([[[{"a": 1}]]], pa.list_(pa.list_(pa.struct({"a": pa.int64()}), 1))), "lists of lists"),
    ],
)
def test_a_nested_column_is_refused_unless_it_is_not_read(tmp_path: Path, column: pa.Array, what: str) -> None:
    path = write(tmp_path / "f.parquet", {"x": column, "y": [1]})
    with pytest.raises(DataError, match=what) as caught:
        read(path)
    assert caught.value.column == "x"
    assert read(path, ReadOptions(("y",))) == ({"y": "int"}, [{"y": [1]}])


def test_a_uint64_column_without_statistics_gets_its_kind_from_its_values(tmp_path: Path) -> None:
    small, large = pa.array([1, 2], pa.uint64()), pa.array([1, 2**63], pa.uint64())
    path = write(tmp_path / "f.parquet", {"s": small, "l": large}, write_statistics=False)
    assert scan_of(path).kinds == {"s": "int", "l": "string"}


def test_a_uint64_column_is_of_integers_up_to_the_greatest_that_int64_holds(tmp_path: Path) -> None:
    columns = {"most": pa.array([1, 2**63 - 1], pa.uint64()), "more": pa.array([1, 2**63], pa.uint64())}
    path = write(tmp_path / "f.parquet", columns, write_statistics=False)
    assert scan_of(path).kinds == {"most": "int", "more": "string"}


@pytest.mark.parametrize(
    ("digits", "behind", "kind"),
    [(18, 0, "int"), (19, 0, "string"), (3, -15, "int"), (3, -16, "string"), (38, 1, "float")],
)
def test_decimals_are_integers_as_long_as_int64_holds_them_with_the_zeros_that_they_leave_out(
    digits: int, behind: int, kind: str
) -> None:
    assert kind_of_decimal(digits, behind) == kind


COLUMNS = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats(width=32, allow_nan=False)),
    "string": (pa.string(), st.text(max_size=5)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=st.integers(1, 20), group=st.integers(1, 7), batch=st.sampled_from([16, 1 << 21]))
def test_any_table_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rows: int, group: int, batch: int
) -> None:
    columns: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for kind, (arrow, values) in COLUMNS.items():
        single = data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        several = data.draw(st.lists(st.none() | st.lists(values, max_size=3), min_size=rows, max_size=rows))
        columns |= {kind: pa.array(single, arrow), f"{kind} list": pa.array(several, pa.list_(arrow))}
        expected |= {kind: [None if value is None else [value] for value in single], f"{kind} list": several}
    path = write(tmp_path_factory.mktemp("parquet") / "f.parquet", columns, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.components.sources.conversion.BATCH", batch)
        patch.setattr(parquet_module, "SMALLEST_PART", 50)
        patch.setattr(parquet_module, "LARGEST_PART", 50)
        kinds, found = read(path)
    assert kinds == {name: name for name in columns}
    text = {
        name: [v and [i.encode() if isinstance(i, str) else i for i in v] for v in own]
        for name, own in expected.items()
    }
    assert found == [{name: text[name][row] for name in columns} for row in range(rows)]
