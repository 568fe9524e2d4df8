"""Texts where numbers are needed: what is said of them depends on what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from messages import says
from trips_folder import CONFIG
from validated import ROWS, reported, rows

from headrace.components.inference.facts import facts_of
from headrace.configs.schema.sources import CsvSource
from headrace.pipeline.preview.texts import texts_of

SEMICOLONS = CONFIG.replace("path: trips.csv", 'path: trips.csv, delimiter: ";"')
WORDS = ["cash", "card", "voucher"]


def of_texts(*texts: str, use: str = "feature", delimiter: str = ";") -> tuple[str, str, str | None]:
    source = CsvSource(kind="csv", path="x.csv", delimiter=delimiter)
    return texts_of(facts_of("fare", "string", pa.chunked_array([texts])), source, use)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "what", "way"),
    [
        ([f"{n},{n % 10}" for n in range(30)], "numbers with a decimal comma such as '0,0'", "data.source.decimal"),
        (
            [f"{n}.00{n % 10},5" for n in range(1, 9)],
            "numbers with a decimal comma",
            "`data.source.decimal: ','` and `data.source.thousands: .`",
        ),
        ([f"{n}'000" for n in range(1, 9)], "numbers with digits in groups", "data.source.thousands: "),
        (["[1, 2]", "[3, 4]"], "lists of numbers such as '[1, 2]'", "{column: vector, size: 2, separator: ','}"),
        (["1|2|3", "4|5|6"], "lists of numbers", "{column: vector, size: 3, separator: '|'}"),
        (
            ["drama|war", "war", "comedy|war", "comedy", "drama", "comedy|drama"],
            "lists of texts",
            "multivalued: true, separator: '|'",
        ),
        (WORDS, "text such as 'card'", "{column: vocabulary, values: [card, cash, voucher]}"),
        (["yes", "no"], "false and true such as 'no'", "{column: boolean}"),
        ([f"the ride number {n} was good" for n in range(60)], "text such as", "{column: text, "),
        ([f"R{n:03}" for n in range(60)], "text such as 'R000'", "leave the column out"),
        (["50%", "7%", "12.5%"], "numbers with a unit such as", "remove the unit"),
        (["$5", "$7.25", "$-3"], "numbers with a unit such as", "remove the unit"),
        (["3 km", "12 km", "700 m"], "numbers with a unit such as", "remove the unit"),
        (["21.11.2026", "22.11.2026"], "dates such as 21.11.2026", "`format: '%d.%m.%Y'`"),
        (["2026-11-21", "2026-11-22"], "dates such as 2026-11-21", "`part: weekday`"),
    ],
)
def test_each_kind_of_text_under_a_number_has_its_own_way_out(values: list[str], what: str, way: str) -> None:
    rows(*(f"{values[row % len(values)]};{row % 2};{row}" for row in ROWS), header="fare;tip;n")
    (problem,) = reported(SEMICOLONS)
    assert problem.startswith(f'c.yaml:6: features.fare: column "fare" holds {what}')
    assert "`column: numeric` needs numbers; " in problem
    assert way in problem
    assert "null_values" not in problem


def test_the_format_that_a_date_is_said_to_have_is_accepted() -> None:
    rows(*(f"{row % 28 + 1}.11.2026;{row % 2}" for row in ROWS), header="fare;tip")
    assert "`format: '%d.%m.%Y'`" in reported(SEMICOLONS)[0]
    assert reported(SEMICOLONS.replace("numeric", "datetime, part: weekday, format: '%d.%m.%Y'")) == []


def test_a_decimal_comma_that_the_config_allows_for_is_a_number() -> None:
    rows(*(f"1.{row:03},{row % 10};{row % 2}" for row in ROWS), header="fare;tip")
    assert "decimal comma" in reported(SEMICOLONS)[0]
    read = SEMICOLONS.replace('delimiter: ";"', "delimiter: ';', decimal: ',', thousands: .")
    assert reported(read) == []
    (problem,) = reported(read.replace(", thousands: .", ""))
    assert "set `data.source.thousands: .`" in problem
    assert "data.source.decimal" not in problem


def test_a_decimal_comma_between_commas_is_told_that_the_delimiter_is_one_too() -> None:
    rows(*(f'"{row},{row % 10}",{row % 2}' for row in ROWS))
    (problem,) = reported(CONFIG)
    assert "decimal comma such as '0,0'" in problem
    assert "delimiter" in problem


def test_of_a_source_without_such_settings_numbers_are_converted_in_the_data() -> None:
    Path("trips.jsonl").write_text(
        "\n".join(json.dumps({"fare": f"{row},5", "tip": row % 2}) for row in ROWS), encoding="utf-8"
    )
    (problem,) = reported(CONFIG.replace("kind: csv, path: trips.csv", "kind: jsonl, path: trips.jsonl"))
    assert "decimal comma such as '0,5'" in problem
    assert "in the data" in problem
    assert "data.source" not in problem.removeprefix("c.yaml:6: ")


def test_columns_with_different_mistakes_are_not_in_one_message() -> None:
    """Dates keep their hint, however many other columns hold texts."""
    header = ["day", *(f"word{number}" for number in range(5)), "tip", "n"]
    rows(
        *(";".join([f"2026-11-{row % 28 + 1:02}", *WORDS, "a", "b", str(row % 2), str(row)]) for row in ROWS),
        header=";".join(header),
    )
    features = "".join(f"  {name}: {{column: numeric}}\n" for name in header[:-2])
    dates, words = reported(SEMICOLONS.replace("  fare: {column: numeric}\n", features))
    assert dates.startswith('c.yaml:6: features.day: column "day" holds dates such as 2026-11-01, ')
    assert "column: datetime" in dates
    assert words.startswith('c.yaml:7: features.word0: columns "word0", "word1", "word2", "word3", "word4" hold text')


@pytest.mark.parametrize(
    ("values", "way"),
    [
        (WORDS, "set `kind: multiclass` and `classes: [card, cash, voucher]`"),
        (["Y", "N", "N"], "set `kind: binary` and `classes: [N, Y]`"),
        (["2026-11-21", "2026-11-22"], "dates such as 2026-11-21, …compute one in the data"),
        ([f"ride {n}" for n in range(60)], "as classes either: …60 different values"),
        (["1,5", "2,5"], "set `data.source.decimal: ','`"),
    ],
)
def test_the_label_of_a_regression_that_is_text_is_told_what_it_could_be(values: list[str], way: str) -> None:
    rows(*(f"{values[row % len(values)]};{row}" for row in ROWS), header="paid;fare")
    (problem,) = reported(SEMICOLONS.replace("key: tip, kind: binary", "key: paid, kind: regression"))
    assert problem.startswith('c.yaml:4: label.key: column "paid" holds ')
    assert "a regression label needs numbers" in problem
    assert says(problem, f"…{way}")
    assert "data.types" not in problem


@pytest.mark.slow
@given(st.lists(st.decimals(-9999, 9999, places=2), min_size=1, max_size=20))
def test_any_numbers_with_a_decimal_comma_are_recognized(numbers: list[object]) -> None:
    found = of_texts(*(str(number).replace(".", ",") for number in numbers))
    assert (found[0], found[2]) == ("numbers with a decimal comma", "set `data.source.decimal: ','`")


@pytest.mark.slow
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=9), st.sampled_from(";|"))
def test_any_lists_of_numbers_of_one_length_become_a_vector(lists: list[list[float]], separator: str) -> None:
    found = of_texts(*(separator.join(map(repr, numbers)) for numbers in lists), delimiter=",")
    assert found[0] == "lists of numbers"
    assert yaml.safe_load((found[2] or "").removeprefix("use ")) == {
        "column": "vector",
        "size": 3,
        "separator": separator,
    }


@pytest.mark.slow
@given(st.lists(st.text(max_size=12), min_size=1, max_size=30), st.sampled_from(["feature", "label", "weight"]))
def test_whatever_the_texts_are_something_is_said_of_them(texts: list[str], use: str) -> None:
    assume(any(texts))
    what, _example, way = of_texts(*texts, use=use)
    assert what
    assert way is None or way
