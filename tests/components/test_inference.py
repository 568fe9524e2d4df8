"""What columns of values are taken for: the feature that fits, or none, with the reason."""

from __future__ import annotations

import datetime as dt
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from column_facts import facts
from hypothesis import given
from hypothesis import strategies as st

from headrace.components.inference import sample as sample_module
from headrace.components.inference.columns import DATES, LEFT_OUT, Choice, choose
from headrace.components.inference.sample import Sample, read_sample
from headrace.components.inference.table import features_of, free_name, infer
from headrace.components.sources.base import HEAD_ROWS
from headrace.components.sources.types import Kind
from headrace.configs.schema.data import DataConfig

DRAW = random.Random(7)
DAYS = [dt.date(2025, 1, 30) + dt.timedelta(days=17 * number) for number in range(60)]


def chosen(values: list[Any], kind: Kind, name: str = "x") -> Choice:
    return choose(facts(values, kind, name))


def feature(values: list[Any], kind: Kind, name: str = "x") -> Any:
    """The settings of the only feature."""
    (settings,) = chosen(values, kind, name).features.values()
    return settings


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ([12345.0, 90210.0, None, 2139.0], "zip_code", {"column": "vocabulary", "values": [2139, 12345, 90210]}),
        ([float(n) for n in range(1, 78)], "pickup_community_area", {"column": "vocabulary", "top_k": 1000}),
        ([1.0, 2.0, 3.0], "month", {"column": "vocabulary", "values": [1, 2, 3]}),
        ([12345.0, 90210.0, None], "PLZ", {"column": "vocabulary", "values": [12345, 90210]}),
        ([120.0, 845.0, None], "Kundennr", {"column": "vocabulary", "values": [120, 845]}),
        ([120.0, 845.0, None], "Betrag", {"column": "numeric"}),
        ([12345.0, 90210.5, None], "zip_code", {"column": "numeric"}),
        ([120.0, 845.0, None, 2300.0], "lot_area", {"column": "numeric"}),
        ([3.0, 4.0, None, 5.0], "calls_per_month", {"column": "numeric"}),
        ([18.0, 21.0, None], "city_mpg", {"column": "numeric"}),
        ([120.0, 845.0, None], "sales_per_state", {"column": "numeric"}),
        ([120.0, 845.0, None], "amount_paid", {"column": "numeric"}),
        ([120.0, 845.0, None], "lowestBid", {"column": "numeric"}),
        ([120.0, 845.0, None], "storeid", {"column": "vocabulary", "values": [120, 845]}),
        ([30.0, 40.0, None], "age", {"column": "numeric"}),
        ([3.0, 7.0, None], "x", {"column": "numeric"}),
    ],
)
def test_codes_that_are_stored_as_floats_are_integers_and_measurements_stay_numbers(
    values: list[Any], name: str, expected: dict[str, Any]
) -> None:
    found = chosen(values * 9, "float", name)
    assert found.features == {"": expected}
    assert found.type == (None if expected == {"column": "numeric"} else "int")
    assert choose(facts(values * 9, "float", name), fixed=True).features == {"": {"column": "numeric"}}


LONG_TAIL = [float(np.exp(number / 5)) for number in range(100)]


@pytest.mark.parametrize(
    ("values", "kind", "name", "expected"),
    [
        ([1.5, 2.5, None, 4.5] * 9, "float", "x", {"column": "numeric"}),
        (LONG_TAIL, "float", "x", {"column": "numeric", "normalize": "log"}),
        ([-value for value in LONG_TAIL], "float", "x", {"column": "numeric"}),
        ([30, 40, 50, 60] * 9, "int", "age", {"column": "numeric"}),
        ([30, 40, 50, 60] * 9, "int", "paid", {"column": "numeric"}),
        ([number**2 for number in range(200)], "int", "amount_paid", {"column": "numeric"}),
        ([30, 40, 50, 60] * 9, "int", "area_code", {"column": "vocabulary", "values": [30, 40, 50, 60]}),
        ([30, 40, 50, 60] * 9, "int", "Gerätetyp", {"column": "vocabulary", "values": [30, 40, 50, 60]}),
        ([3, 7] * 9, "int", "x", {"column": "vocabulary", "values": [3, 7]}),
        (["b", "a", "", "a"] * 9, "string", "x", {"column": "vocabulary", "values": ["a", "b"]}),
        ([f"v{n % 99}" for n in range(500)], "string", "x", {"column": "vocabulary", "top_k": 1000}),
        ([f"v{n % 1100}" for n in range(5000)], "string", "x", {"column": "hashed", "hash_buckets": 2048}),
        (["Yes", "no", None] * 9, "string", "x", {"column": "boolean"}),
        ([0, 1, 1] * 9, "int", "x", {"column": "boolean"}),
        ([0.0, 1.0, None] * 9, "float", "x", {"column": "boolean"}),
        ([[0.5, 1.5], None, [], [2.5, float("nan")]] * 9, "float list", "x", {"column": "vector", "size": 2}),
        (
            [f"[{n / 8}, -{n}, 1e-{n % 3}]" for n in range(50)],
            "string",
            "x",
            {"column": "vector", "size": 3, "separator": ","},
        ),
        (["(1 2.5)", "", "(-3  .5)"] * 9, "string", "x", {"column": "vector", "size": 2, "separator": " "}),
        (["[1;2]", "[3;4;5]"] * 9, "string", "x", {"column": "vocabulary", "values": ["[1;2]", "[3;4;5]"]}),
        ([["a", "b"], ["a"], []] * 9, "string list", "x", {"column": "vocabulary", "top_k": 1000, "multivalued": True}),
        (
            ["a|b", "b|c", "a", "c|a", "b|c|a"] * 9,
            "string",
            "x",
            {"column": "vocabulary", "top_k": 1000, "multivalued": True, "separator": "|"},
        ),
        (
            [" ".join(DRAW.choices(["so", "good", "and", "not", "too", "bad"], k=8)) for _ in range(50)],
            "string",
            "x",
            {"column": "text", "split": "words", "top_k": 10000, "min_frequency": 2, "max_tokens": 200},
        ),
    ],
)
def test_a_column_becomes_the_feature_that_fits_its_values(values: Any, kind: Any, name: str, expected: Any) -> None:
    assert feature(values, kind, name) == expected


@pytest.mark.parametrize(
    ("values", "kind", "name", "reason"),
    [
        ([None] * 9, "float", "x", "no values"),
        (["a"] * 9, "string", "x", "the same value in all rows: a"),
        ([1.0] + [None] * 200, "float", "x", "only 1 of 201 rows"),
        ([b"\xff\xd8"] * 9 + [b"\x89"], "bytes", "x", "column: image"),
        ([[0.5, 1.5]] * 9 + [[2.5]], "float list", "x", "lists of 1 to 2 numbers"),
        ([1.0, float("inf")] * 9, "float", "x", "infinite"),
        ([f"C{n}" for n in range(50)], "string", "x", "an id or a name"),
        ([f"{n}.25" for n in range(50)], "string", "x", "read as text"),
        ([*range(100, 150)], "int", "x", "counts from 100 to 149"),
        ([7 * n for n in range(50)], "int", "customer_id", "an id"),
        ([7 * n for n in range(50)], "int", "Auftragsnummer", "an id"),
    ],
)
def test_a_column_of_no_use_is_left_out_with_the_reason(values: Any, kind: Any, name: str, reason: str) -> None:
    found = chosen(values, kind, name)
    assert found.group == LEFT_OUT
    assert reason in found.comment
    assert not found.features


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("%Y-%m-%d", None),
        ("%Y-%m-%d %H:%M:%S", None),
        ("%Y-%m-%dT%H:%M:%SZ", None),
        ("%d.%m.%Y", "%d.%m.%Y"),
        ("%m/%d/%Y", "%m/%d/%Y"),
        ("%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M"),
        ("%d-%b-%Y", "%d-%b-%Y"),
        ("%B %d, %Y", "%B %d, %Y"),
        ("%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M %p"),
        ("%Y%m%d", "%Y%m%d"),
    ],
)
def test_dates_are_read_in_the_format_in_which_they_were_written(written: str, expected: str | None) -> None:
    moments = [dt.datetime.combine(day, dt.time(number % 24, 30)) for number, day in enumerate(DAYS)]
    found = chosen([moment.strftime(written) for moment in moments], "string").features
    hour = ["_hour"] if "%H" in written or "%I" in written else []
    assert [*found] == ["_year", "_month", "_weekday", *hour]
    assert {settings.get("format") for settings in found.values()} == {expected}


def test_a_format_with_day_and_month_exchanged_is_mentioned_if_it_fits_too() -> None:
    assert "%m/%d/%Y" in chosen([f"{n % 9 + 1:02}/{n % 7 + 1:02}/2026" for n in range(63)], "string").comment
    assert "if the month" not in chosen([day.strftime("%d/%m/%Y") for day in DAYS], "string").comment


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("%H:%M:%S", "%H:%M:%S"),
        ("%H:%M", "%H:%M"),
        ("%H:%M:%S.%f", "%H:%M:%S.%f"),
        ("%H:%M:%S.%f000", "%H:%M:%S.%f"),
        ("%I:%M %p", "%I:%M %p"),
    ],
)
def test_times_of_day_are_taken_by_their_hour(written: str, expected: str) -> None:
    times = [dt.time(number % 24, number % 60, number % 7) for number in range(90)]
    found = chosen([time.strftime(written) for time in times], "string", "departure")
    assert found.group == DATES
    assert found.features == {"_hour": {"column": "datetime", "part": "hour", "format": expected}}
    assert "times of day" in found.comment


def test_times_in_one_hour_are_not_taken_for_times_of_day() -> None:
    lengths = [f"00:{number % 60:02}:{number % 7:02}" for number in range(200)]
    assert all(settings["column"] != "datetime" for settings in chosen(lengths, "string", "length").features.values())


def test_columns_of_booleans_are_described_in_their_words() -> None:
    columns = {"x": [0, 1, 1, 0], "y": [1, 0, 1, 1]}
    kinds: dict[str, Kind] = dict.fromkeys(columns, "int")
    numbers = Sample(pa.table(columns), kinds, whole=True)
    of_numbers, of_booleans = infer(numbers, "y"), infer(replace(numbers, booleans=frozenset(columns)), "y")
    assert "0 or 1 (50%)" in of_numbers.choices[0].comment
    assert "false or true (50%)" in of_booleans.choices[0].comment
    assert of_numbers.labels["y"].comment.startswith("1 in 75%")
    assert of_booleans.labels["y"].comment.startswith("true in 75%")
    assert of_booleans.labels["y"].settings == of_numbers.labels["y"].settings == {"kind": "binary"}


def test_first_days_of_months_have_no_weekday() -> None:
    found = chosen([f"{year}-{month:02}-01" for year in (2024, 2025) for month in range(1, 13)], "string")
    assert [*found.features] == ["_year", "_month"]


def test_numbers_of_which_float32_would_lose_digits_are_marked_with_an_example() -> None:
    times = [1700000000.125 + number for number in range(30)]
    found = chosen(times, "float")
    assert found.features == {"": {"column": "numeric"}}
    assert found.comment.startswith("1700000000.125 to 1700000029.125, mean 1700000014.62")
    assert "1700000029.125 is stored as 1700000000.0, which is 29.1 away" in found.lost_digits
    assert not chosen([41.8 + number / 100 for number in range(30)], "float").lost_digits


def test_numbers_in_comments_are_written_out() -> None:
    incomes = chosen([450.12, *(20_000.5 + 3_000 * n for n in range(30)), 738_050.0], "float")
    assert incomes.comment.startswith("450.12 to 738,050, mean 82,610; a long tail")
    years = chosen([1990.0, 2024.0, 2001.5, None], "float")
    assert years.comment == "1990 to 2024, mean 2005; 25% missing"
    small = chosen([0.00001, 0.00002, 0.00004, 0.00005], "float")
    assert small.comment == "0.00001 to 0.00005, mean 0.00003"


def test_no_logarithm_is_chosen_where_float32_would_lose_its_digits() -> None:
    tail = [1.0 + (number % 25) / 8 if number < 95 else 300.125 for number in range(100)]
    assert chosen(tail, "float").features == {"": {"column": "numeric", "normalize": "log"}}
    found = chosen([1.7e12 + number for number in tail], "float")
    assert found.lost_digits
    assert found.features == {"": {"column": "numeric"}}


def test_seconds_since_1970_are_dates_if_the_name_says_so() -> None:
    values = [1_700_000_000 + 86_413 * n for n in range(50)]
    assert {one["format"] for one in chosen(values, "int", "created_at").features.values()} == {"epoch_s"}
    assert "2023-11-14 22:13 to" in chosen(values, "int", "created_at").comment
    assert chosen(values, "int", "amount").group == "numbers"
    of_days = [int(day.strftime("%Y%m%d")) for day in DAYS]
    assert {one["format"] for one in chosen(of_days, "int", "amount").features.values()} == {"%Y%m%d"}


@given(st.text(max_size=20), st.sets(st.sampled_from(["a", "a_2", "feature", "feature_1", "x"])))
def test_names_of_features_are_identifiers_that_are_free(wanted: str, taken: set[str]) -> None:
    name = free_name(wanted, taken)
    assert name.isidentifier()
    assert name.isascii()
    assert name not in taken


@pytest.mark.parametrize(("column", "name"), [("Größe (m²)", "Grosse_m2"), ("Ubåt é", "Ubat_e"), ("東京", "feature")])
def test_letters_with_marks_stay_in_the_name_of_a_feature(column: str, name: str) -> None:
    assert free_name(column, set()) == name


def test_a_feature_of_another_name_has_the_column_as_its_key() -> None:
    choice = Choice("signup date", "dates", "", {"_year": {"column": "datetime", "part": "year"}})
    assert dict(features_of(choice, {"signup_date_year"})) == {
        "signup_date_year_2": {"column": "datetime", "key": "signup date", "part": "year"}
    }


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"${number}.50" for number in range(1, 50)], "numbers with a unit, such as $9.50"),
        ([f"{number},5 %" for number in range(50)], "numbers with a unit"),
        ([f"{number:,} km" for number in range(900, 1100)], "numbers with a unit"),
        ([f"{number}%" for number in range(10)] * 5, ""),
        ([f"{number} {'abcd'[number % 4]}" for number in range(60)], "an id or a name"),
        ([f"{day:%d.%m.%Y}" if day.day % 2 else f"{day}" for day in DAYS], "dates in several formats, such as 0"),
        ([f"{day:%d.%m.%Y}" if day.day % 2 else "soon" for day in DAYS], ""),
    ],
)
def test_values_that_the_data_could_write_as_numbers_or_dates_are_told(values: list[str], words: str) -> None:
    found = chosen(values, "string")
    assert words in found.comment
    assert found.mendable == ("numbers with" in words or "dates in" in words)
    assert found.group == LEFT_OUT or not words


@pytest.mark.parametrize("text", ["w{}", "{} km", "2026-13-{}", "{} a b c d e f", "red{}"])
def test_a_column_of_texts_is_not_held_against_each_format_of_dates(text: str) -> None:
    values = [text.format(number % 99) for number in range(500)]
    chosen(values, "string")  # the formats are compiled once
    given, calls = facts(values, "string"), 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        choose(given)
    finally:
        sys.setprofile(None)
    assert calls < 1500, "there are more than 80 formats"


def test_long_arrays_keep_their_columns_of_unsigned_integers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_module, "WHOLE_BYTES", 0)
    path = tmp_path / "arrays.npz"
    np.savez(path, n=np.arange(HEAD_ROWS + 1, dtype=np.uint64))
    data = DataConfig.model_validate({"source": {"kind": "arrays", "path": str(path)}})
    assert read_sample(data).kinds == {"n": "int"}


def test_thousands_of_names_that_become_the_same_are_told_apart() -> None:
    taken = dict[str, None]()
    for _ in range(20_000):
        taken[free_name("日本", taken)] = None
    assert [*taken][:3] == ["feature", "feature_2", "feature_3"]
    assert len(taken) == 20_000
