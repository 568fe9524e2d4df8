"""What columns are taken for: features, labels and leaks, compared with values chosen for it and with NumPy."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.common.errors import DataError
from headrace.components.inference.columns import DATES, LEFT_OUT, Choice, choose
from headrace.components.inference.facts import ColumnFacts, facts_of
from headrace.components.inference.labels import choose_label, likely_labels
from headrace.components.inference.leaks import average_ranks, determines, rank_correlation, separation
from headrace.components.inference.sample import Sample
from headrace.components.inference.table import features_of, free_name, infer
from headrace.components.sources.types import Kind

DRAW = random.Random(7)
DAYS = [dt.date(2025, 1, 30) + dt.timedelta(days=17 * number) for number in range(60)]


def facts(values: list[Any], kind: Kind, name: str = "x") -> ColumnFacts:
    types = {"int": pa.int64(), "float": pa.float64(), "string": pa.string(), "bytes": pa.binary()}
    scalar = types[kind.removesuffix(" list")]
    array = pa.chunked_array([pa.array(values, pa.list_(scalar) if kind.endswith(" list") else scalar)])
    return facts_of(name, kind, array)


def chosen(values: list[Any], kind: Kind, name: str = "x") -> Choice:
    return choose(facts(values, kind, name))


def feature(values: list[Any], kind: Kind, name: str = "x") -> Any:
    """The settings of the only feature."""
    (settings,) = chosen(values, kind, name).features.values()
    return settings


LONG_TAIL = [float(np.exp(number / 5)) for number in range(100)]


@pytest.mark.parametrize(
    ("values", "kind", "name", "expected"),
    [
        ([1.5, 2.5, None, 4.5] * 9, "float", "x", {"column": "numeric"}),
        (LONG_TAIL, "float", "x", {"column": "numeric", "normalize": "log"}),
        ([-value for value in LONG_TAIL], "float", "x", {"column": "numeric"}),
        ([30, 40, 50, 60] * 9, "int", "age", {"column": "numeric"}),
        ([30, 40, 50, 60] * 9, "int", "area_code", {"column": "vocabulary", "values": [30, 40, 50, 60]}),
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
        ([*range(100, 150)], "int", "x", "counts from 100 to 149"),
        ([7 * n for n in range(50)], "int", "customer_id", "an id"),
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


@pytest.mark.parametrize(
    ("values", "kind", "settings", "type_"),
    [
        ([0, 1, 1], "int", {"kind": "binary"}, None),
        ([1.0, 2.0], "float", {"kind": "binary", "classes": [1, 2]}, None),
        ([0.5, 1.5], "float", {"kind": "binary", "classes": ["0.5", "1.5"]}, "string"),
        (["stayed", "left"], "string", {"kind": "binary", "classes": ["left", "stayed"]}, None),
        (["ja", "nein", "nein"], "string", {"kind": "binary", "classes": ["nein", "ja"]}, None),
        (["Yes", "No"], "string", {"kind": "binary", "classes": ["No", "Yes"]}, None),
        (["a", "b", "c"], "string", {"kind": "multiclass", "classes": ["a", "b", "c"]}, None),
        ([0, 1, 2], "int", {"kind": "multiclass", "classes": 3}, None),
        ([3, 4, 8], "int", {"kind": "multiclass", "classes": [3, 4, 8]}, None),
        ([["b", "a"], ["a"], []], "string list", {"kind": "multilabel", "classes": ["a", "b"]}, None),
        ([[2], [0, 1]], "int list", {"kind": "multilabel", "classes": 3}, None),
        (
            ["x|y", "x", "y|z", "z|x|y", "z|y"],
            "string",
            {"kind": "multilabel", "classes": ["x", "y", "z"], "separator": "|"},
            None,
        ),
        ([0.1 * n for n in range(40)], "float", {"kind": "regression"}, None),
        ([*range(40)], "int", {"kind": "regression"}, None),
    ],
)
def test_a_label_has_the_kind_and_classes_of_its_values(values: Any, kind: Any, settings: Any, type_: Any) -> None:
    found = choose_label(facts(values * 20, kind))
    assert (found.settings, found.type) == (settings, type_)


def test_the_classes_of_lists_are_counted_by_rows() -> None:
    found = choose_label(facts([["b", "a"], ["a"], []] * 20, "string list"))
    assert found.comment == "2 classes, 1.5 in a row; the most frequent is a (40 rows)"
    texts = choose_label(facts(["x|y", "x", "y|z", "z|x|y", "z|y"] * 9, "string"))
    assert texts.comment == "3 classes, 2.0 in a row; the most frequent is y (36 rows)"
    assert found.several
    assert texts.several


def test_thresholds_are_above_what_guessing_reaches() -> None:
    three = choose_label(facts(["a"] * 60 + ["b"] * 30 + ["c"] * 10, "string"))
    assert three.threshold == ("accuracy", {"min": 0.64})  # a tenth of the way from 0.6 to 1
    numbers = [float(n % 37) for n in range(400)]
    metric, bounds = choose_label(facts(numbers, "float")).threshold
    assert metric == "mean_squared_error"
    assert bounds["max"] == pytest.approx(0.9 * np.var(numbers), rel=0.01)


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        ([None, None], "string", "no values"),
        (["a", "a"], "string", "only one value, a"),
        ([["a"], ["a"]], "string list", "lists have only one value, a"),
        ([[0.5], [1.5]], "float list", "lists of numbers"),
        ([[f"{n}", "x"] for n in range(100)], "string list", "101 different values, and at most 100"),
        ([f"{n}" for n in range(101)], "string", "at most 100 can be classes; .*`label.kind: text`"),
        ([f"{n}" for n in range(40)], "string", "40 different values in 40 rows"),
        ([1.0, float("inf"), 2.0], "float", "infinite"),
    ],
)
def test_a_column_that_cannot_be_predicted_is_refused_with_the_reason(values: Any, kind: Any, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        choose_label(facts(values, kind, "outcome"))


def test_possible_labels_are_listed_with_those_of_few_classes_first() -> None:
    columns = [facts([*range(50)], "int", "row"), facts([0.1 * n for n in range(50)], "float", "price")]
    columns += [facts(["a", "b"] * 25, "string", "kind"), facts([f"n{n}" for n in range(150)], "string", "name")]
    columns += [facts([["a"], ["b"]] * 25, "string list", "tags")]
    assert likely_labels(columns) == ["kind", "price"]


def column_of(values: Sequence[Any]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values)])


def test_a_column_that_stands_for_the_label_is_found() -> None:
    label, alive = ["no", "yes", "no"] * 9, [0, 1, 0] * 9
    assert determines(column_of(alive), column_of(label), facts(alive, "int"), facts(label, "string"))
    label[2], label[5] = "", ""
    assert determines(column_of(alive), column_of(label), facts(alive, "int"), facts(label, "string"))
    alive[0] = 1
    assert not determines(column_of(alive), column_of(label), facts(alive, "int"), facts(label, "string"))


PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=60)


@given(PAIRS)
def test_separation_is_the_share_of_pairs_in_order(rows: list[tuple[int, int]]) -> None:
    values, labels = (np.array(column) for column in zip(*rows, strict=True))
    positive, negative = values[labels > 4], values[labels <= 4]
    expected = 0.5
    if len(positive) and len(negative):
        above = (positive[:, None] > negative).mean() + 0.5 * (positive[:, None] == negative).mean()
        expected = max(above, 1 - above)
    assert separation(values, labels > 4) == pytest.approx(expected)


@given(PAIRS)
def test_ranks_and_their_correlation_are_those_of_pandas(rows: list[tuple[int, int]]) -> None:
    table = pd.DataFrame(rows, columns=["x", "y"])
    np.testing.assert_array_equal(average_ranks(table.x.to_numpy()), table.x.rank())
    varies = table.nunique().min() > 1
    expected = table.x.rank().corr(table.y.rank()) if varies else 0.0
    assert rank_correlation(table.x.to_numpy(), table.y.to_numpy()) == pytest.approx(expected)


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


def test_numbers_that_nearly_give_the_label_away_are_kept_with_a_suspicion() -> None:
    rng = np.random.default_rng(5)
    label, price = rng.integers(0, 2, 500), rng.lognormal(0, 1, 500)
    columns = {"label": label, "tip": label + rng.normal(0, 0.3, 500), "price": price, "log_price": -np.log(price)}
    columns |= {"fare": rng.normal(0, 1, 500)}
    sample = Sample(pa.table(columns), {"label": "int", **dict.fromkeys([*columns][1:], "float")}, whole=True)
    of_label = {choice.column: choice.suspicion for choice in infer(sample, "label").choices}
    assert "AUC of 0.9" in of_label["tip"]
    assert not any(of_label[name] for name in ("price", "log_price", "fare"))
    of_price = {choice.column: choice for choice in infer(sample, "price").choices}
    assert "rank correlation of -1.000" in of_price["log_price"].suspicion
    assert of_price["log_price"].group == "numbers"
    assert not any(of_price[name].suspicion for name in ("label", "tip", "fare"))


def test_integers_beyond_those_of_float64_are_compared_with_the_label_by_their_order() -> None:
    rng = np.random.default_rng(8)
    label = rng.integers(0, 2, 300)
    columns = {"label": label, "size": 2**53 + rng.integers(0, 99, 300)}
    columns["cost"] = 2**60 + 7 * label + rng.integers(0, 5, 300)  # float64 has multiples of 256 there
    sample = Sample(pa.table(columns), dict.fromkeys(columns, "int"), whole=True)
    of_label = {choice.column: choice.suspicion for choice in infer(sample, "label").choices}
    assert "AUC of 1.000" in of_label["cost"]
    assert not of_label["size"]
    columns["price"] = columns["cost"] * 2 + 1
    sample = Sample(pa.table(columns), dict.fromkeys(columns, "int"), whole=True)
    of_price = {choice.column: choice.suspicion for choice in infer(sample, "cost").choices}
    assert not of_price["size"]


def test_values_and_gaps_that_give_the_label_away_are_kept_with_a_suspicion() -> None:
    rng = np.random.default_rng(6)
    gone = rng.random(600) < 0.3
    some = rng.random(600) < 0.5
    columns: dict[str, Any] = {
        "gone": gone.astype(int),
        "days": [int(day) if leaves else None for day, leaves in zip(rng.integers(1, 99, 600), gone, strict=True)],
        "share": np.where(gone, rng.random(600), np.nan),
        "why": np.where(gone, np.where(some, "price", "quality"), ""),
        "state": np.where(gone, np.where(some, "ended", "lapsed"), np.where(some, "open", "new")),
        "offers": [["a"] if leaves else [] for leaves in gone],
        "gaps": [int(day) if has else None for day, has in zip(rng.integers(1, 99, 600), some, strict=True)],
        "plan": np.where(some, "basic", "team"),
    }
    kinds: dict[str, Kind] = {"gone": "int", "days": "int", "share": "float", "why": "string", "state": "string"}
    kinds |= {"offers": "string list", "gaps": "int", "plan": "string"}
    found = {one.column: one for one in infer(Sample(pa.table(columns), kinds, whole=True), "gone").choices}
    for name in ("days", "share", "why", "offers"):
        assert "AUC of 1.000 by whether it has a value" in found[name].suspicion
        assert found[name].features
    assert "alone reaches an AUC of 1.000" in found["state"].suspicion
    assert not found["gaps"].suspicion
    assert not found["plan"].suspicion


def test_a_column_with_gaps_may_stand_for_the_label() -> None:
    label = pa.chunked_array([[0, 1] * 50])
    for gaps, expected in ((10, True), (49, True), (60, False)):
        column = pa.chunked_array([[*[None] * gaps, *(["no", "yes"] * 50)[gaps:]]])
        of_column, of_label = facts_of("x", "string", column), facts_of("y", "int", label)
        assert determines(column, label, of_column, of_label) is expected


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


def test_classes_that_differ_in_case_and_white_space_are_told() -> None:
    assert choose_label(facts(["Yes", "yes", "No", "no "] * 9, "string")).alike == ["No", "Yes", "no ", "yes"]
    assert choose_label(facts(["red", "green", "Green"] * 9, "string")).alike == ["Green", "green"]
    assert choose_label(facts(["red", "green", "blue"] * 9, "string")).alike == []
    assert choose_label(facts([0, 1, 2] * 30, "int")).alike == []
