"""Workbooks: what openpyxl writes comes back, with a type for each column, and mistakes name their row and sheet."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from source_rows import read_source

from headrace.common.errors import DataError
from headrace.components.sources import ReadOptions, ScanResult, open_source
from headrace.components.sources.excel.sheet import letters
from headrace.configs.loading.loader import load
from headrace.configs.schema.sources import ExcelSource
from headrace.pipeline.init.write import write as describe

DAY, NOON = dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 12, 30)
HEADER = ["id", "price", "day", "moment", "ok", "mixed", "code", "wait", "error", "never"]
ROWS: list[list[Any]] = [
    [1, 1.5, DAY, NOON, True, "a", "007", dt.timedelta(hours=30), "#N/A", None],
    [2, None, DAY, DAY, False, 3, "8", None, None, None],
    [],
    [2**40, 1e300, None, None, None, 2.5, None, dt.timedelta(seconds=1.5), "#DIV/0!", None],
]
READ: dict[str, tuple[str, list[Any]]] = {
    "id": ("int", [1, 2, 2**40]),
    "price": ("float", [1.5, None, 1e300]),
    "day": ("string", ["2026-01-31", "2026-01-31", None]),
    "moment": ("string", ["2026-01-31 12:30:00", "2026-01-31 00:00:00", None]),
    "ok": ("int", [1, 0, None]),
    "mixed": ("string", ["a", "3", "2.5"]),
    "code": ("string", ["007", "8", None]),
    "wait": ("float", [108000.0, None, 1.5]),
    "error": ("missing", [None] * 3),
    "never": ("missing", [None] * 3),
}


def write(path: Path, sheets: Mapping[str, Any], left: int = 0) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for number, row in enumerate(rows, 1):
            for position, value in enumerate(row, 1 + left):
                cell = sheet.cell(number, position, value)
                if isinstance(value, str) and value.startswith("#"):
                    cell.data_type = "e"
    book.save(path)
    return path


def source(path: Path | str, **more: Any) -> ExcelSource:
    return ExcelSource(kind="excel", path=str(path), **more)


def read(path: Path, **more: Any) -> tuple[ScanResult, list[dict[str, Any]]]:
    return read_source(source(path, **more))


def test_texts_for_missing_values_are_no_values_and_init_finds_them(tmp_path: Path) -> None:
    rows = [["k. A." if row % 9 == 4 else row * 1.5, "n/a" if row % 7 == 3 else DAY, row % 2] for row in range(60)]
    path = write(tmp_path / "a.xlsx", {"Sales": [["price", "day", "y"], *rows]})
    scan, found = read(path, null_values=("k. A.", "n/a"))
    assert scan.kinds == {"price": "float", "day": "string", "y": "int"}
    assert [row["price"] for row in found[:6]] == [0, 1.5, 3, 4.5, None, 7.5]
    assert [row["day"] for row in found[:5]] == ["2026-01-31"] * 3 + [None, "2026-01-31"]
    config = tmp_path / "a.yaml"
    describe(config, "a", {"kind": "excel", "path": str(path)}, ("y",), str)
    loaded = load(yaml.safe_load(config.read_text()))
    assert isinstance(loaded.data.source, ExcelSource)
    assert loaded.data.source.null_values == ("k. A.", "n/a")
    assert loaded.declared_features["price"].column == "numeric"


def test_each_column_has_the_type_that_holds_its_cells(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", {"Sales": [HEADER, *ROWS]})
    scan, rows = read(path)
    assert scan.kinds == {name: kind for name, (kind, _) in READ.items()}
    assert scan.rows == {str(path): 3}
    assert {name: [row[name] for row in rows] for name in READ} == {
        name: list(values) for name, (_, values) in READ.items()
    }


CELLS = {
    "whole": st.integers(-(2**52), 2**52),
    "number": st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer()),
    "text": st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8).filter(
        lambda text: text[0] not in "=#" and text.isprintable() and "_x" not in text
    ),
    "day": st.dates(dt.date(1950, 1, 1), dt.date(2100, 1, 1)),
}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.fixed_dictionaries({name: st.none() | cell for name, cell in CELLS.items()}), min_size=1, max_size=20)
)
def test_what_openpyxl_writes_comes_back(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    given_rows = [[row[name] for name in CELLS] for row in rows]
    path = write(tmp_path_factory.mktemp("excel") / "a.xlsx", {"a": [[*CELLS], *given_rows]})
    expected = [
        {**row, "day": None if row["day"] is None else row["day"].isoformat()}
        for row in rows
        if any(value is not None for value in row.values())
    ]
    _, found = read(path)
    for one, other in zip(found, expected, strict=True):
        assert {name: one[name] for name in ("whole", "text", "day")} == {
            name: other[name] for name in ("whole", "text", "day")
        }
        assert one["number"] is other["number"] or math.isclose(one["number"], other["number"], rel_tol=1e-15)


def test_the_sheet_the_header_and_the_first_column_may_be_anywhere(tmp_path: Path) -> None:
    table = [["Report of 2026"], [], [2025, " price "], [1, 2.5]]
    path = write(tmp_path / "a.xlsx", {"Notes": [["x"], [1]], "Sales": table}, left=2)
    for which in ("Sales", 2):
        scan, rows = read(path, sheet=which, header_row=3)
        assert (scan.kinds, rows) == ({"2025": "int", "price": "float"}, [{"2025": 1, "price": 2.5}])
    assert read(path)[1] == [{"x": 1}]


def test_titles_above_the_header_are_left_out(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.xlsx", {"Sales": [["Sales of 2026"], [], ["all in EUR"], ["id", "price"], [1, 2], [3, 4]]}
    )
    assert read(path)[1] == [{"id": 1, "price": 2}, {"id": 3, "price": 4}]


@pytest.mark.parametrize(
    ("rows", "more", "what"),
    [
        ([["a"], [1]], {"sheet": "Sale"}, "no sheet 'Sale'.*'?Sales"),
        ([["a"], [1]], {"sheet": 2}, "no sheet 2"),
        ([["a"], [1]], {"header_row": 5}, "'Sales' has no row 5"),
        ([], {}, "'Sales' has no row"),
        ([["a", "b", "a"], [1, 2, 3]], {}, "row 1 of sheet 'Sales' .*twice"),
        ([["a", None], [1, None], [1, 5]], {}, "column B has values.*header_row"),
    ],
)
def test_a_sheet_that_is_not_a_table_is_refused(rows: Any, more: Any, what: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", {"Sales": rows})
    with pytest.raises(DataError, match=f"(?s){what}") as caught:
        open_source(source(path, **more), None, ReadOptions()).columns()
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_workbook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.xlsx: is not a workbook"):
        open_source(source(tmp_path / "a.xlsx"), None, ReadOptions()).columns()


def test_a_cell_that_is_not_of_the_declared_type_names_its_row_or_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", {"Sales": [["code"], ["1"], [], ["x"], ["3"]]})
    with pytest.raises(DataError, match=r"row 4 of sheet 'Sales'"):
        read_source(source(path), {"code": "int"})
    scan, rows = read_source(source(path), {"code": "int"}, skip_bad=True)
    assert (rows, scan.skipped.count) == ([{"code": 1}, {"code": 3}], 1)


def test_several_files_have_the_same_columns_and_files_of_an_open_excel_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a.xlsx", {"x": [["a", "b"], [1, 2]]})
    write(tmp_path / "b.xlsx", {"y": [["b", "a"], ["z", 3]]})
    (tmp_path / "~$b.xlsx").write_bytes(b"lock")
    scan, rows = read(tmp_path / "*.xlsx")
    assert (scan.kinds, rows) == ({"a": "int", "b": "string"}, [{"a": 1, "b": "2"}, {"a": 3, "b": "z"}])
    write(tmp_path / "c.xlsx", {"y": [["a", "c"], [1, 3]]})
    with pytest.raises(DataError, match=r"c\.xlsx.*no column 'b'"):
        read(tmp_path / "*.xlsx")


def test_the_source_can_be_pickled_after_it_was_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.xlsx", {"x": [["a"], [1]]})
    opened = open_source(source(path), None, ReadOptions())
    assert opened.columns() == pickle.loads(pickle.dumps(opened)).columns() == ["a"]


@pytest.mark.parametrize(("position", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")])
def test_columns_are_named_as_in_excel(position: int, name: str) -> None:
    assert letters(position) == name
