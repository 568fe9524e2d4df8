"""CSV as it is found: groups of digits, comments and names that occur twice, with the values that pandas reads."""

import io
import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.examples import parts as parts_module
from headrace.components.sources import ReadOptions, ScanResult, open_source, serial_map
from headrace.components.sources.csv import blocks as blocks_module
from headrace.components.sources.csv.header import distinct_names
from headrace.configs.schema.sources import CsvSource

NUMBERS = st.integers(-(10**12), 10**12) | st.integers(-(10**9), 10**9).map(lambda number: number / 1000)
TEXTS = st.text(st.sampled_from('ab1#,.;" \n'), max_size=8)
COMMENTS = st.lists(st.text(st.sampled_from('ab#,;"1 '), max_size=12), max_size=2)


def read(path: Path, declared: dict[str, Any] | None = None, **source: Any) -> tuple[dict[str, str], dict[str, list]]:
    opened = open_source(CsvSource(kind="csv", path=str(path), **source))
    parts = opened.parts(serial_map)
    scan = sum((opened.scan(part, declared or {}) for part in parts), ScanResult())
    rows = [
        row
        for part in parts
        for batch in opened.batches(part, {**scan.kinds, **(declared or {})})
        for row in batch.to_pylist()
    ]
    return dict(scan.kinds), {name: [row[name] for row in rows] for name in opened.columns()}


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "f.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def grouped(number: float, thousands: str, decimal: str) -> str:
    text = f"{number:,}"
    return text.translate({ord(","): thousands, ord("."): decimal})


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.tuples(NUMBERS, TEXTS, COMMENTS), min_size=1, max_size=8),
    marks=st.sampled_from([(",", "."), (".", ","), (" ", ","), ("'", "."), ("\u00a0", ",")]),
    delimiter=st.sampled_from(",;"),
    before=COMMENTS,
    ending=st.sampled_from(["\n", "\r\n"]),
    size=st.sampled_from([7, 40, 1 << 21]),
)
def test_numbers_texts_and_comments_are_those_that_pandas_reads(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[float, str, list[str]]],
    marks: tuple[str, str],
    delimiter: str,
    before: list[str],
    ending: str,
    size: int,
) -> None:
    thousands, decimal = marks
    if delimiter == decimal:
        delimiter = ";"
    lines = [*(f"#{comment}" for comment in before), f"n{delimiter}s"]
    for number, text, comments in rows:
        quoted = '"' + text.replace('"', '""') + '"'
        lines += [
            f'"{grouped(number, thousands, decimal)}"{delimiter}{quoted}',
            *(f"#{comment}" for comment in comments),
        ]
    path = written(tmp_path_factory.mktemp("csv"), ending.join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "CHUNK", size)
        for name in ("SMALLEST_PART", "LARGEST_PART"):
            patch.setattr(parts_module, name, size)
        source = {"thousands": thousands, "decimal": decimal, "comment": "#", "delimiter": delimiter}
        _, found = read(path, {"n": "float", "s": "string"}, **source)
    options: dict[str, Any] = {"dtype": {"n": float, "s": str}, "keep_default_na": False, "sep": delimiter}
    text = path.read_text(encoding="utf-8").replace("\u00a0", " ")  # pandas takes ASCII only
    with io.StringIO(text, newline="") as stream:
        expected = pd.read_csv(
            stream, thousands=thousands.replace("\u00a0", " "), decimal=decimal, comment="#", **options
        )
    assert found["n"] == expected["n"].tolist() == [number for number, *_ in rows]
    assert found["s"] == [value or None for value in expected["s"]] == [value or None for _, value, _ in rows]


@pytest.mark.parametrize(
    ("values", "kind", "numbers"),
    [
        (["1,234", "5"], "int", [1234, 5]),
        (["1,234.5", "-12,34,567"], "float", [1234.5, -1234567.0]),
        (["1,000", ""], "int", [1000, None]),
        (["1,234", "x"], "string", ["1,234", "x"]),
        (["1,2,2026"], "string", ["1,2,2026"]),
        (["0,123"], "string", ["0,123"]),
        (["1,23"], "string", ["1,23"]),
        (["1234,567"], "string", ["1234,567"]),
        (["1,234,5"], "string", ["1,234,5"]),
        (["1.5,000"], "string", ["1.5,000"]),
        (["9,223,372,036,854,775,807"], "int", [2**63 - 1]),
        (["9,223,372,036,854,775,808"], "string", ["9,223,372,036,854,775,808"]),
        (["-9,999", "1"], "int", [None, 1]),
    ],
)
def test_a_column_is_numeric_if_all_its_values_are_grouped_or_plain_numbers(
    tmp_path: Path, values: list[str], kind: str, numbers: list[Any]
) -> None:
    path = written(tmp_path, "n,s\n" + "".join(f'"{value}",x\n' for value in values))
    assert read(path, thousands=",", null_values=("", "-9,999")) == (
        {"n": kind, "s": "string"},
        {"n": numbers, "s": ["x"] * len(values)},
    )


def test_a_declared_type_reads_groups_of_digits_or_leaves_them(tmp_path: Path) -> None:
    path = written(tmp_path, "n;s\n1.234;1.234\n")
    assert read(path, {"n": "int", "s": "string"}, thousands=".", decimal=",", delimiter=";")[1] == {
        "n": [1234],
        "s": ["1.234"],
    }
    assert read(path, {"s": "bytes"}, thousands=".", decimal=",", delimiter=";")[1]["s"] == [b"1.234"]


def test_an_error_has_its_line_after_comments_and_names_the_setting(tmp_path: Path) -> None:
    path = written(tmp_path, '# "\na,b\n# x\n1,"2,000"\n')
    with pytest.raises(DataError, match=r"(?s)f\.csv:4: column 'b': '2,000' is not an int.*thousands: \",\""):
        read(path, {"b": "int"}, comment="#")
    with pytest.raises(DataError, match=r"(?s)f\.csv:3: .*'# x'.*data\.source\.comment: '#'"):
        read(written(tmp_path, "a,b\n1,2\n# x\n"))
    with pytest.raises(DataError, match=r"f\.csv:3: column 2 .* no name"):
        read(written(tmp_path, "# a\n# b\na,\n"), comment="#")
    with pytest.raises(DataError, match=r"(?s)f\.csv:2: .*names of the columns is a comment.*comment: '#'"):
        read(written(tmp_path, "# exported\na,b\n1,2\n"))
    with pytest.raises(DataError, match="is empty"):
        read(written(tmp_path, "# a\n# b\n"), comment="#")


def test_bad_records_between_comments_are_skipped_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, 'a,b\n1,2\n# "\n3\n# x\n4,5\n')
    opened = open_source(CsvSource(kind="csv", path=str(path), comment="#"), None, ReadOptions(skip_bad=True))
    (part,) = opened.parts(serial_map)
    scan = opened.scan(part, {})
    assert scan.skipped.count == 1
    assert [row for batch in opened.batches(part, scan.kinds) for row in batch.to_pylist()] == [
        {"a": 1, "b": 2},
        {"a": 4, "b": 5},
    ]


def test_a_name_that_occurs_twice_is_an_error_or_renamed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, "a,b,a,a_2,b\n1,2,3,4,5\n")
    with pytest.raises(DataError, match=r"(?s)f\.csv:1: .*'a' \(columns 1, 3\), 'b' \(columns 2, 5\).*rename.*'a_3'"):
        read(path)
    with caplog.at_level(logging.INFO):
        found = read(path, duplicate_names="rename")[1]
    assert found == {"a": [1], "b": [2], "a_3": [3], "a_2": [4], "b_2": [5]}
    assert [record.getMessage().split("called ")[1] for record in caplog.records] == [
        "'a'; this one is read as 'a_3'",
        "'b'; this one is read as 'b_2'",
    ]


def test_a_column_without_a_name_is_an_error_or_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, ",a, ,unnamed_1\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"(?s)f\.csv:1: column 1 .*no name.*duplicate_names: rename.*'unnamed_1_2'"):
        read(path)
    with caplog.at_level(logging.INFO):
        found = read(path, duplicate_names="rename")[1]
    assert found == {"unnamed_1_2": [1], "a": [2], "unnamed_3": [3], "unnamed_1": [4]}
    assert ["column without a name" in record.getMessage() for record in caplog.records] == [True, True]


@given(st.lists(st.sampled_from(["a", "a_2", "a_2_2", "a_3", "b", "", " ", "unnamed_2"]), min_size=1, max_size=9))
def test_names_become_distinct_and_those_that_were_stay(names: list[str]) -> None:
    columns = distinct_names(names)
    assert len(set(columns)) == len(names)
    given_names = [name for name in names if name.strip()]
    assert {column for column in columns if column in names} == set(given_names)
    assert all(columns[names.index(name)] == name for name in given_names)
    assert all(columns)


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ({"thousands": "."}, "thousands and decimal"),
        ({"thousands": "1"}, "thousands: '1'"),
        ({"thousands": "-"}, "thousands: '-'"),
        ({"comment": ","}, "comment and delimiter"),
        ({"comment": "é"}, "comment: 'é'"),
        ({"comment": "#", "thousands": "#"}, "thousands and comment"),
    ],
)
def test_characters_with_two_meanings_are_refused(setting: dict[str, str], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        CsvSource.model_validate({"kind": "csv", "path": "x.csv", **setting})


@pytest.mark.parametrize(
    ("values", "decimal", "expected"),
    [
        (["12345.0", "", "-7.00", "8"], ".", [12345, None, -7, 8]),
        (["9007199254740993", "1.0"], ".", [9007199254740993, 1]),
        (["12345,0", "7"], ",", [12345, 7]),
        ([" 7 ", "12345.0"], ".", [7, 12345]),
    ],
)
def test_declared_integers_may_have_zeros_after_the_point(
    tmp_path: Path, values: list[str], decimal: str, expected: list[int | None]
) -> None:
    path = written(tmp_path, "n;s\n" + "".join(f"{value};0.0\n" for value in values))
    found = read(path, {"n": "int"}, delimiter=";", decimal=decimal)
    assert found[1]["n"] == expected
    assert read(path, delimiter=";", decimal=decimal)[0]["n"] == "float"


def test_a_declared_integer_with_a_fraction_is_reported_in_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "n\n1.0\n2.5\n3.0\n")
    with pytest.raises(DataError, match=r"f\.csv:3: column 'n': '2\.5' is not an int"):
        read(path, {"n": "int"})
