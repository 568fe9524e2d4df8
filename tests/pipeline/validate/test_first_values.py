"""What the first rows of the data say of the values of columns, before anything runs."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from messages import says
from trips_folder import CONFIG
from validated import ROWS, noted, reported, rows

CODE = CONFIG + "  code: {column: vocabulary, values: [VALUES]}\n"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("'1,200', 7", "column \"code\" holds integers, …'1,200'; write 1200"),
        ("'07'", "is written '07'; write 7"),
        ("'1200', -7", ""),
        ("A", "is written 'A'; …declare `string`"),
        ("7, 1200, unknown", ""),
        ("7, unknown, '1,200'", "is written '1,200'; write 1200"),
    ],
)
def test_values_that_no_integer_is_written_as_are_refused(values: str, words: str) -> None:
    rows(*(f'{row}.5,{row % 2},"{(row % 2) * 1193 + 7}"' for row in ROWS), header="fare,tip,code")
    problems = reported(CODE.replace("VALUES", values))
    assert len(problems) == bool(words)
    for problem in problems:
        assert says(problem, f"c.yaml:7: features.code.values: …{words}")


def test_a_value_for_later_data_among_integers_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2},{row // 2 % 2 + 1}" for row in ROWS), header="fare,tip,code")
    (note,) = noted(CODE.replace("VALUES", "'1', '2', unknown"), caplog)
    assert note.startswith("note: c.yaml:7: features.code.values: ")
    assert "none is written 'unknown'" in note


def test_values_that_the_first_rows_do_not_have_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2},{'xy'[row // 2 % 2]} " for row in ROWS), header="fare,tip,code")
    (note,) = noted(CODE.replace("VALUES", "x, y"), caplog)
    assert note.startswith('note: c.yaml:7: features.code.values: column "code" has none of ')
    assert "'x ', 'y '" in note
    assert noted(CODE.replace("VALUES", "'x ', z"), caplog) == []
    divided = "column: vocabulary, multivalued: true, separator: '|'"
    assert noted(CODE.replace("column: vocabulary", divided).replace("VALUES", "x"), caplog) == []


def test_integers_that_later_rows_may_turn_into_texts_are_noted(caplog: pytest.LogCaptureFixture) -> None:
    rows(
        *(f"{row}.5,{row % 2},{7 + row // 2 % 2 if row < 200_000 else 'A'}" for row in range(200_500)),
        header="fare,tip,code",
    )
    (note,) = noted(CODE.replace("VALUES", "7, A"), caplog)
    assert "none is written 'A'" in note


@pytest.mark.parametrize(
    ("number", "values", "distinct", "words"),
    [
        (2000, "fractions", 20, ""),
        (2000, "fractions", 21, "21 different numbers with fractions in its first 2,000 rows"),
        (2000, "whole floats", 200, ""),
        (2000, "integers", 200, ""),
        (2000, "integers", 201, "has 201 different values in its first 2,000 rows"),
        (2000, "texts", 200, ""),
        (2000, "texts", 201, "has 201 different values in its first 2,000 rows"),
        (500, "integers", 100, ""),
        (500, "integers", 101, "has 101 different values in its first 500 rows"),
        (60, "fractions", 20, ""),
        (60, "fractions", 21, "has 21 different numbers with fractions"),
        (2000, "nothing", 1, ""),
    ],
)
def test_slices_over_measurements_are_noted(
    number: int, values: str, distinct: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    spelled = {"fractions": "{}.25", "whole floats": "{}.0", "integers": "{}", "texts": "zone {}", "nothing": ""}
    rows(
        *(f"{row}.5,{row // 3 % 2},{spelled[values].format(row % distinct)}" for row in range(number)),
        header="fare,tip,of",
    )
    found = noted(CONFIG + "evaluate: {slices: [of]}\n", caplog)
    assert len(found) == bool(words)
    for note in found:
        assert note.startswith('note: c.yaml:7: evaluate.slices[0]: column "of" has ')
        assert words in note


def test_a_slice_over_nearly_unique_values_is_noted_and_not_refused(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{row}.5,{row % 2},{row % 7}" for row in range(400)), header="fare,tip,day")
    (note,) = noted(CONFIG + "evaluate: {slices: [day, fare]}\n", caplog)
    assert note.startswith('note: c.yaml:7: evaluate.slices[1]: column "fare" has 400 different numbers')


def test_numbers_that_lose_digits_are_noted_until_they_are_float64(caplog: pytest.LogCaptureFixture) -> None:
    rows(*(f"{1_700_000_000 + row / 8},{row % 2},{row / 8}" for row in range(400)), header="fare,tip,day")
    declared = CONFIG.replace("label:", "  types: {fare: float64}\nlabel:", 1)
    for text, notes in ((CONFIG, 1), (declared, 0)):
        found = noted(text, caplog)
        assert len(found) == notes
        for note in found:
            assert note.startswith('note: c.yaml:6: features.fare: column "fare" loses digits: 17000000')
            assert "is stored as 1700000000.0, which is 49.9 away" in note
            assert "`data.types.fare: float64`" in note


def test_the_label_of_a_regression_that_loses_digits_is_not_advised_to_be_float64(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows(*(f"{row % 50},{1_700_000_000 + row / 8}" for row in range(400)))
    (note,) = noted(CONFIG.replace("kind: binary", "kind: regression"), caplog)
    assert 'label.key: column "tip" loses digits: 17000000' in note
    assert "float64" not in note
    assert "subtract an offset" in note


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_under_a_number_are_called_dates(kind: str) -> None:
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=row) for row in ROWS]
    if kind == "csv":
        rows(*(f"{day},{row % 2}" for row, day in enumerate(days)))
    else:
        pq.write_table(pa.table({"fare": days, "tip": [row % 2 for row in ROWS]}), "trips.parquet")
    (problem,) = reported(CONFIG.replace("kind: csv, path: trips.csv", f"kind: {kind}, path: trips.{kind}"))
    assert problem.startswith('c.yaml:6: features.fare: column "fare" holds dates such as 2024-01-01, ')


@pytest.mark.parametrize(
    ("feature", "value", "words"),
    [
        ("column: datetime, part: month", "21.11.2026", "`%d.%m.%Y`"),
        ("column: datetime, part: month", "20261121", "`%Y%m%d`"),
        ("column: datetime, part: month", "1795459564", "`epoch_s`"),
        ('column: datetime, part: month, format: "%d/%m/%Y"', "2026-11-21", "`format: %d/%m/%Y`"),
        ("column: datetime, part: hour", "08:30", "`%H:%M:%S`"),
        ('column: datetime, part: hour, format: "%H:%M"', "08:30:00", "`format: %H:%M`"),
        ('column: datetime, part: hour, format: "%H:%M"', "08:30", ""),
        ("column: boolean", "perhaps", "`column: vocabulary`"),
        ("column: datetime, part: month", "2026-11-21 10:30", ""),
        ('column: datetime, part: month, format: "%d/%m/%Y"', "21/11/2026", ""),
        ("column: datetime, part: month, format: epoch_s", "1795459564", ""),
        ("column: boolean", "Yes", ""),
        ("column: boolean", "0", ""),
    ],
)
def test_dates_and_booleans_that_cannot_be_read_are_reported_with_a_way_out(
    feature: str, value: str, words: str
) -> None:
    rows(*(f"{value if row % 3 else ''},{row % 2}" for row in ROWS))
    problems = [one for one in reported(CONFIG.replace("column: numeric", feature)) if "data.splits" not in one]
    assert len(problems) == bool(words)
    for problem in problems:
        assert problem.startswith(f'c.yaml:6: features.fare: column "fare" holds {value!r}, ')
        assert words in problem


def test_lists_of_lists_are_reported_once() -> None:
    pq.write_table(pa.table({"fare": [[[1.0], [2.0]]] * 60, "tip": [row % 2 for row in ROWS]}), "trips.parquet")
    (problem,) = reported(CONFIG.replace("kind: csv, path: trips.csv", "kind: parquet, path: trips.parquet"))
    assert "lists of lists" in problem


@pytest.mark.parametrize(
    ("values", "settings", "place", "words"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], "size: 2", "", ""),
        ([[1.0, 2.0], None, [], [3.0, 4.0]], "size: 2", "", ""),
        ([[], [1.0, 2.0], [3.0, 4.0]], "size: 3", "size", "length 2 in row 2, …set `size: 2`"),
        ([[1.0, 2.0], [3.0]], "size: 2", "size", "length 1 in row 2, …same length"),
        ([["a"], ["b"]], "size: 1", "", "lists of texts"),
        ([1.5, 2.5], "size: 2", "column", "single numbers, …`column: numeric`"),
        ([1.5, 2.5], "size: 1", "", ""),
        (["[1, 2]", "[3, 4]"], "size: 2", "separator", "'[1, 2]', …`separator: \",\"`"),
        (["a b", "c d"], "size: 2", "separator", "'a b', …set the `separator`"),
        (["1 2", "3  4", "", None], "size: 2, separator: ' '", "", ""),
        (["[1;2]", "(3;nan)"], "size: 2, separator: ;", "", ""),
        (["1;2", "3;4;5"], "size: 2, separator: ;", "size", "length 3 in row 2"),
        (["1;2", "3;x"], "size: 2, separator: ;", "separator", "'x' in the list of row 2"),
    ],
)
def test_lists_that_are_no_vectors_are_reported_with_the_row(
    values: list[object], settings: str, place: str, words: str
) -> None:
    some = [values[row % len(values)] for row in ROWS]
    pq.write_table(pa.table({"fare": some, "tip": [row % 2 for row in ROWS]}), "trips.parquet")
    config = CONFIG.replace("kind: csv, path: trips.csv", "kind: parquet, path: trips.parquet")
    problems = [
        problem
        for problem in reported(config.replace("column: numeric", f"column: vector, {settings}"))
        if "data.splits" not in problem
    ]
    assert len(problems) == bool(words)
    for problem in problems:
        assert problem.startswith(f"c.yaml:6: features.fare{place and '.'}{place}: ")
        assert says(problem, f"…{words}")


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_called_one(indent: int | None) -> None:
    Path("trips.jsonl").write_text(
        json.dumps([{"fare": row, "tip": row % 2} for row in ROWS], indent=indent), encoding="utf-8"
    )
    (problem,) = reported(CONFIG.replace("kind: csv, path: trips.csv", "kind: jsonl, path: trips.jsonl"))
    assert problem.startswith("c.yaml:3: data.source.path: ")
    assert "JSON array" in problem


def test_many_columns_with_one_mistake_are_in_one_message() -> None:
    names = [f"c{number}" for number in range(20)]
    rows(*(",".join([*(["x"] * 20), str(row % 2), str(row)]) for row in ROWS), header=",".join([*names, "tip", "n"]))
    features = "".join(f"  {name}: {{column: numeric}}\n" for name in names)
    (problem,) = reported(CONFIG.replace("  fare: {column: numeric}\n", features))
    assert problem.startswith('c.yaml:6: features.c0: columns "c0", "c1", ')
    assert says(problem, "…\"c11\" and 8 more hold text such as 'x', …`column: numeric` needs numbers; leave")


@pytest.mark.parametrize(
    ("gate", "value", "way"),
    [
        ("", "2026-11-21", ""),
        ("", "soon", "is a date in ISO 8601; set `format`"),
        ("", "21.11.2026", "set `format`, such as `%d.%m.%Y`"),
        ("", "1795459564", "is a text; set `format` to `epoch_days`, `epoch_s`"),
        (', format: "%Y%m%d"', "20261121", "`data.types.at: string`"),
        (", format: epoch_s", "1795459564", ""),
        (", format: epoch_s", "2026-11-21", "which `format: epoch_s` counts; remove `format`"),
        (', format: "%d/%m/%Y"', "2026-11-21", "written as `format: %d/%m/%Y` says"),
    ],
)
def test_column_of_freshness_without_a_date_is_refused(
    gate: str, value: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows(*(f"{row}.5,{row % 2},{value if row % 3 else ''}" for row in ROWS), header="fare,tip,at")
    config = f"{CONFIG}gates: {{freshness: {{max_days: 1, column: at{gate}}}}}\n"
    problems = reported(config)
    assert len(problems) == bool(way)
    for problem in problems:
        assert problem.startswith(f"c.yaml:7: gates.freshness.column: column \"at\" holds '{value}', and no value ")
        assert way in problem
    notes = noted(config.replace("max_days: 1", "max_days: 1, on_anomaly: warn"), caplog)
    assert len([note for note in notes if "gates.freshness.column" in note]) == bool(way)
