"""`datetime` and `boolean` columns against Python's datetime, over random dates, and over texts that are no dates."""

import datetime as dt
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from headrace.configs.schema.features import BooleanFeature, DatetimeFeature
from headrace.trainer.columns.base import Batch
from headrace.trainer.columns.boolean import BooleanColumn
from headrace.trainer.columns.datetime import DatetimeCategory, DatetimeNumber, datetime_column

RANDOM = random.Random(7)
FIRST, LAST = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)
TIMES = [FIRST + (LAST - FIRST) * RANDOM.random() for _ in range(500)]
TIMES += [dt.datetime(year, 2, 28) + dt.timedelta(days=1) for year in (1600, 1900, 1970, 2000, 2023, 2024, 2100)]
PARTS: dict[str, Callable[[dt.datetime], int]] = {
    "month": lambda when: when.month - 1,
    "day": lambda when: when.day - 1,
    "weekday": lambda when: when.weekday(),
    "hour": lambda when: when.hour,
}


def feature(**settings: Any) -> DatetimeFeature:
    return DatetimeFeature.model_validate({"column": "datetime", **settings})


def batch(values: Any, **others: Any) -> Batch:
    return Batch({"when": tf.constant(values), **{name: tf.constant(value) for name, value in others.items()}}, {})


def categories(values: Any, **settings: Any) -> list[int]:
    column = datetime_column("when", feature(**settings))
    assert isinstance(column, DatetimeCategory)
    return column.transform(batch(values)).numpy().tolist()


def part_numbers(values: Any, others: Any = None, **settings: Any) -> np.ndarray:
    """The numbers before they are scaled."""
    column = datetime_column("when", feature(**settings))
    assert isinstance(column, DatetimeNumber)
    numbers: np.ndarray = column.analyzed_numbers(batch(values, **(others or {})), "").numpy()
    return numbers


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_iso_texts_are_those_of_python_over_all_of_its_years(part: str) -> None:
    expected = [PARTS[part](when) for when in TIMES]
    assert categories([when.isoformat(" ", "seconds") for when in TIMES], part=part) == expected
    assert categories([when.isoformat() for when in TIMES], part=part) == expected


def test_the_year_and_the_age_are_numbers() -> None:
    texts = [when.isoformat() for when in TIMES]
    assert part_numbers(texts, part="year").tolist() == [when.year for when in TIMES]
    expected = [(dt.datetime(2026, 1, 1) - when.replace(microsecond=0)) / dt.timedelta(days=1) for when in TIMES]
    np.testing.assert_allclose(part_numbers(texts, part="age", reference="2026-01-01"), expected, rtol=1e-15)


def test_an_age_against_a_column_is_missing_where_either_is() -> None:
    others = {"end": ["2026-01-02", "2026-01-01T12:00:00", "", "2026-01-01"]}
    ages = part_numbers(["2026-01-01", "2026-01-01", "2026-01-01", "none"], others, part="age", reference_key="end")
    np.testing.assert_array_equal(ages, [1.0, 0.5, math.nan, math.nan])


@pytest.mark.parametrize(
    "written",
    ["%d/%m/%Y %H:%M:%S", "%m-%d-%Y %I:%M %p", "%Y%m%d", "%d %B %Y, %H h", "%b %d %Y", "%y.%m.%d", "%Y-%m-%dT%H:%M%z"],
)
def test_formats_mean_what_strptime_says(written: str) -> None:
    recent = [when.replace(year=1969 + when.year % 100, day=min(when.day, 28), tzinfo=dt.UTC) for when in TIMES]
    texts = [when.strftime(written) for when in recent]
    parsed = [dt.datetime.strptime(text, written) for text in texts]
    for part, of in PARTS.items():
        assert categories(texts, part=part, format=written) == [of(when) for when in parsed]
    assert part_numbers(texts, part="year", format=written).tolist() == [when.year for when in parsed]


@pytest.mark.parametrize("written", ["%H:%M", "%H:%M:%S.%f", "%I:%M %p", "%Hh"])
def test_times_of_day_have_the_hour_of_strptime(written: str) -> None:
    texts = [when.strftime(written) for when in TIMES]
    assert categories(texts, part="hour", format=written) == [
        dt.datetime.strptime(text, written).hour for text in texts
    ]
    assert categories(["08:30:00.123456789", "24:00:00.0", "", "8"], part="hour", format="%H:%M:%S.%f") == [
        8,
        24,
        24,
        24,
    ]


@pytest.mark.parametrize("part", ["year", "month", "weekday"])
def test_other_parts_need_a_date(part: str) -> None:
    with pytest.raises(ValueError, match=f"%H:%M .* no {part}"):
        feature(part=part, format="%H:%M")
    with pytest.raises(ValueError, match="needs one year"):
        feature(part="hour", format="%d.%m. %H:%M")


def test_a_time_zone_is_converted_to_utc() -> None:
    texts = ["2026-01-01T00:30:00+01:00", "2025-12-31 19:30:00 -0500", "2026-01-01 00:30Z", "2026-01-01 00:30:00.000"]
    assert categories(texts, part="hour") == [23, 0, 0, 0]
    assert categories(texts, part="month") == [11, 0, 0, 0]


@pytest.mark.parametrize("text", ["", "2026-02-30", "2026-13-01", "0000-01-01", "21.11.2026", "2026-11-21x", "nan"])
def test_what_is_no_date_is_missing(text: str) -> None:
    assert categories([text, "2026-11-21"], part="weekday") == [7, 5]
    assert math.isnan(part_numbers([text], part="year")[0])
    column = datetime_column("when", feature(part="month", encoding="cosine"))
    assert column.transform(batch([text])).numpy().tolist() == [0.0]


@pytest.mark.parametrize(("written", "unit"), [("epoch_s", "s"), ("epoch_ms", "ms"), ("epoch_us", "us")])
def test_numbers_since_1970_are_those_of_pandas(written: str, unit: str) -> None:
    seconds = [RANDOM.randrange(-(10**9), 4 * 10**9) for _ in range(200)]
    scale = {"s": 1, "ms": 1000, "us": 1_000_000}[unit]
    expected = pd.to_datetime(pd.Series(seconds), unit="s").dt
    values = np.array(seconds, np.int64) * scale
    assert categories(values, part="hour", format=written) == expected.hour.tolist()
    assert categories([str(value) for value in values], part="weekday", format=written) == expected.weekday.tolist()
    assert part_numbers(np.array([19000, 0]), part="year", format="epoch_days").tolist() == [2022, 1970]


@pytest.mark.parametrize(("part", "period"), [("hour", 24), ("weekday", 7), ("month", 12), ("day", 31)])
def test_waves_are_of_the_position_in_the_period(part: str, period: int) -> None:
    texts = [when.isoformat() for when in TIMES]
    angles = np.array([PARTS[part](when) for when in TIMES]) * 2 * np.pi / period
    for encoding, wave in (("sine", np.sin), ("cosine", np.cos)):
        found = datetime_column("when", feature(part=part, encoding=encoding)).transform(batch(texts)).numpy()
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wave(angles), atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"part": "month", "format": "%Y"}, "month"),
        ({"part": "month", "format": "%Y-%m-%q"}, "%q"),
        ({"part": "month", "format": "%d/%m/%Y %I"}, "%p"),
        ({"part": "month", "format": "%d/%d/%m/%Y"}, "twice"),
        ({"part": "age"}, "reference"),
        ({"part": "age", "reference": "soon"}, "ISO 8601"),
        ({"part": "year", "encoding": "sine"}, "number"),
        ({"part": "hour", "reference": "2026-01-01"}, "age"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str], word: str) -> None:
    with pytest.raises(ValueError, match="Value error") as caught:
        feature(**settings)
    assert word in str(caught.value)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["Yes", "no", " TRUE ", "F", "1", "0", "on", "", "maybe"], [1, 0, 1, 0, 1, 0, 1, 2, 2]),
        (np.array([0, 1, 2, tf.int64.min]), [0, 1, 2, 2]),
        (np.array([0.0, 1.0, np.nan, 0.5], np.float32), [0, 1, 2, 2]),
    ],
)
def test_booleans_are_false_true_or_missing(values: Any, expected: list[int]) -> None:
    column = BooleanColumn("when", BooleanFeature(column="boolean"))
    assert column.transform(batch(values)).numpy().tolist() == expected
    assert column.num_categories() == 3
    filled = BooleanColumn("when", BooleanFeature(column="boolean", missing=True))
    assert filled.transform(batch(values)).numpy().tolist() == [min(one, 1) for one in expected]
    assert filled.num_categories() == 2


def test_written_graph_transforms_dates_and_booleans_as_pandas_does(transformed: Any) -> None:
    """Rows that were analyzed, and rows that were not there to learn from."""
    when = pd.Series([parsed(text) for text in transformed.column("when")], dtype="object")
    seen = when[: len(transformed.rows)]
    ages = [None if one is None else (dt.datetime(2026, 1, 1) - one) / dt.timedelta(days=1) for one in when]
    numbers = {
        "when_year": [None if one is None else one.year for one in when],
        "when_hour": [None if one is None else one.hour for one in when],
        "when_age": ages,
    }
    for name, values in numbers.items():
        column = np.array(values, float)
        train = column[: len(seen)]
        expected = (column - np.nanmean(train)) / np.nanstd(train)
        np.testing.assert_allclose(transformed.all(name), np.nan_to_num(expected), rtol=1e-5, atol=1e-6, err_msg=name)
    assert transformed.all("when_month").tolist() == [12 if one is None else one.month - 1 for one in when]
    waves = [0 if one is None else math.sin(2 * math.pi * one.weekday() / 7) for one in when]
    np.testing.assert_allclose(transformed.all("when_weekday"), waves, atol=1e-6)
    flags = [TRUTH.get(value, 2) for value in transformed.column("flag")]
    assert transformed.all("flag").tolist() == flags
    assert transformed.all("flag_filled").tolist() == [min(flag, 1) for flag in flags]
    crossed = transformed.all("cross_dates")
    pairs = dict(zip(zip(transformed.all("when_month"), flags, strict=True), crossed, strict=True))
    assert len(pairs) > 8
    assert all(
        pairs[pair] == one
        for pair, one in zip(zip(transformed.all("when_month"), flags, strict=True), crossed, strict=True)
    )


def parsed(text: str | None) -> dt.datetime | None:
    """By Python; a time with Z is in UTC already."""
    try:
        return dt.datetime.fromisoformat(text or "").replace(tzinfo=None)
    except ValueError:
        return None


TRUTH = {"yes": 1, "No": 0, "TRUE": 1, "0": 0, "on": 1, "f": 0}
