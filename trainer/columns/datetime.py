"""`column: datetime`: a part of a date or time, computed in the graph.

Texts become seconds since 1970-01-01 UTC (int64) by regular expressions and the algorithms of Howard Hinnant's
"chrono-Compatible Low-Level Date Algorithms" for the proleptic Gregorian calendar, which is Python's.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from headrace.configs.schema.features import DatetimeFeature
from headrace.configs.schema.features.calendar import EPOCH_UNITS, MONTHS, PART_CATEGORIES, pattern_of
from headrace.trainer.columns.analyzers.numbers import Moments
from headrace.trainer.columns.base import Analyzer, Batch, Categories, CategoryColumn, NumberColumn, VocabularySize
from headrace.trainer.columns.raw import RawColumn

DAY = 86400
FIRST, LAST = -62135596800.0, 253402300799.0
"""The seconds of 0001-01-01 and 9999-12-31 23:59:59, between which Python has dates too."""


class Times(NamedTuple):
    """seconds: int64 [batch] since 1970-01-01 UTC; known: bool [batch], False where the value is missing or no date."""

    seconds: tf.Tensor
    known: tf.Tensor


def datetime_column(name: str, feature: DatetimeFeature) -> DatetimeNumber | DatetimeCategory:
    """Return a number column or a category column, as the part and its encoding ask for."""
    return DatetimeNumber(name, feature) if feature.is_number else DatetimeCategory(name, feature)


class DatetimeCategory(CategoryColumn[DatetimeFeature]):
    """The month, day, weekday (Monday is 0) or hour as a category, from 0."""

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:
        """The values of the part, and one category for missing ones."""
        return PART_CATEGORIES[self.feature.part] + 1

    def categories(self, batch: Batch) -> Categories:
        """The part, from 0."""
        times = read_times(batch.raw(self.key), self.feature.format)
        return Categories(position(times.seconds, self.feature.part), times.known, PART_CATEGORIES[self.feature.part])


class DatetimeNumber(NumberColumn[DatetimeFeature]):
    """The part as a scaled number, or the sine or cosine of its position in its period."""

    def analyzers(self) -> list[Analyzer]:
        """The moments of the part, for the scaling."""
        waves = self.feature.encoding in {"sine", "cosine"}
        return [] if waves else [Moments(f"{self.name} {self.feature.model_dump_json()}")]

    def analyzed_numbers(self, batch: Batch, key: str) -> tf.Tensor:  # it has one number
        """float64 [batch]: the part, NaN where missing."""
        times = read_times(batch.raw(self.key), self.feature.format)
        if self.feature.part != "age":
            return _or_nan(tf.cast(_part(times.seconds, self.feature.part), tf.float64), times.known)
        reference, known = tf.constant(self._reference(), tf.float64), times.known
        if self.feature.reference_key is not None:
            other = read_times(batch.raw(self.feature.reference_key), self.feature.format)
            reference, known = tf.cast(other.seconds, tf.float64), tf.logical_and(known, other.known)
        return _or_nan((reference - tf.cast(times.seconds, tf.float64)) / DAY, known)

    def transform(self, batch: Batch) -> tf.Tensor:
        """(x - mean) / deviation, or the wave; 0 for a missing value."""
        if not self.analyzers():
            return self._wave(batch)
        (moments,) = self.analyzers()
        mean, deviation, least, greatest = tf.unstack(batch.result(moments))
        x = self.analyzed_numbers(batch, "")
        scaled = tf.where(greatest > least, tf.math.divide_no_nan(x - mean, deviation), tf.zeros_like(x))
        return tf.cast(tf.where(tf.math.is_nan(x), tf.zeros_like(x), scaled), tf.float32)

    def _wave(self, batch: Batch) -> tf.Tensor:
        times = read_times(batch.raw(self.key), self.feature.format)
        turn = 2 * math.pi / PART_CATEGORIES[self.feature.part]
        angle = tf.cast(position(times.seconds, self.feature.part), tf.float64) * turn
        wave = tf.sin(angle) if self.feature.encoding == "sine" else tf.cos(angle)
        return tf.cast(tf.where(times.known, wave, tf.zeros_like(wave)), tf.float32)

    def _reference(self) -> float:
        return 0.0 if self.feature.reference is None else self.feature.reference_seconds()


def read_times(raw: RawColumn, date_format: str | None) -> Times:
    """The times of a data column, according to the format; those of 1970-01-01 for a format without a date."""
    if date_format in EPOCH_UNITS:
        return _counted(raw, EPOCH_UNITS[date_format])
    pattern = pattern_of(date_format)
    text = tf.strings.strip(raw.text)
    matched = tf.logical_and(raw.present, tf.strings.regex_full_match(text, pattern.regex))
    field = {
        name: tf.where(matched, tf.strings.regex_replace(text, f"^{pattern.regex}$", f"\\{group}"), "")
        for group, name in enumerate(pattern.fields, 1)
    }
    days = _days(field) if "d" in field else Times(tf.zeros_like(matched, tf.int64), matched)
    minutes = _hour(field, matched) * 60 + _optional(field, "M", matched) - _offset_minutes(field, matched)
    seconds = days.seconds + minutes * 60 + _optional(field, "S", matched)
    return Times(seconds, tf.logical_and(matched, days.known))


def _days(field: dict[str, tf.Tensor]) -> Times:
    """The start of each day; not known for a day that does not exist."""
    year, month = _year(field), _month(field)
    days = days_from_civil(year, month, _integer(field["d"]))
    # 02-30 is 03-01 or 03-02, so its month comes back as another one.
    return Times(days * DAY, tf.logical_and(year >= 1, tf.equal(civil_from_days(days)[1], month)))


def _counted(raw: RawColumn, unit: tuple[int, int]) -> Times:
    """Times that are numbers of a unit since 1970, as text or number."""
    if raw.is_text:
        matched = tf.strings.regex_full_match(raw.values, r"[-+]?[0-9]{1,18}(?:[.][0-9]*)?")
        numbers = tf.strings.to_number(tf.where(matched, raw.values, "nan"), tf.float64)
    else:
        numbers = raw.numbers
    factor, divisor = (tf.constant(number, tf.float64) for number in unit)
    seconds = tf.floor(numbers * factor / divisor)
    known = tf.logical_and(seconds >= FIRST, seconds <= LAST)  # False for NaN
    return Times(tf.cast(tf.where(known, seconds, tf.zeros_like(seconds)), tf.int64), known)


def position(seconds: tf.Tensor, part: str) -> tf.Tensor:
    """int64 [batch]: the part, counted from 0."""
    return _part(seconds, part) - (1 if part in {"month", "day"} else 0)


def _part(seconds: tf.Tensor, part: str) -> tf.Tensor:
    """int64 [batch]: the part as people write it; weekdays from Monday, 0."""
    days = tf.math.floordiv(seconds, DAY)
    if part == "hour":
        return tf.math.floordiv(tf.math.floormod(seconds, DAY), 3600)
    if part == "weekday":
        return tf.math.floormod(days + 3, 7)
    year, month, day = civil_from_days(days)
    return {"year": year, "month": month, "day": day}[part]


def days_from_civil(year: tf.Tensor, month: tf.Tensor, day: tf.Tensor) -> tf.Tensor:
    """int64: days since 1970-01-01."""
    year -= tf.cast(month <= 2, tf.int64)
    era = tf.math.floordiv(year, 400)
    of_era = year - era * 400
    of_year = (153 * (month + tf.where(month > 2, tf.constant(-3, tf.int64), 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil_from_days(days: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """int64: year, month and day of a number of days since 1970-01-01."""
    days += 719468
    era = tf.math.floordiv(days, 146097)
    day = days - era * 146097
    of_era = (day - day // 1460 + day // 36524 - day // 146096) // 365
    of_year = day - (365 * of_era + of_era // 4 - of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + tf.where(shifted < 10, tf.constant(3, tf.int64), -9)
    return of_era + era * 400 + tf.cast(month <= 2, tf.int64), month, of_year - (153 * shifted + 2) // 5 + 1


def _integer(text: tf.Tensor) -> tf.Tensor:
    """int64; 0 for an empty text."""
    return tf.strings.to_number(tf.where(tf.equal(text, ""), "0", text), tf.int64)


def _optional(field: dict[str, tf.Tensor], name: str, like: tf.Tensor) -> tf.Tensor:
    return _integer(field[name]) if name in field else tf.zeros_like(like, tf.int64)


def _year(field: dict[str, tf.Tensor]) -> tf.Tensor:
    if "Y" in field:
        return _integer(field["Y"])
    short = _integer(field["y"])
    return short + tf.where(short < 69, tf.constant(2000, tf.int64), 1900)  # as in POSIX


def _month(field: dict[str, tf.Tensor]) -> tf.Tensor:
    if "m" in field:
        return _integer(field["m"])
    name = tf.strings.lower(tf.strings.substr(field["b" if "b" in field else "B"], 0, 3))
    return tf.argmax(tf.equal(name[:, tf.newaxis], tf.constant(MONTHS)), axis=1) + 1


def _hour(field: dict[str, tf.Tensor], like: tf.Tensor) -> tf.Tensor:
    if "I" not in field:
        return _optional(field, "H", like)
    afternoon = tf.cast(tf.equal(tf.strings.lower(field["p"]), "pm"), tf.int64)
    return tf.math.floormod(_integer(field["I"]), 12) + 12 * afternoon


def _offset_minutes(field: dict[str, tf.Tensor], matched: tf.Tensor) -> tf.Tensor:
    """Minutes east of UTC; 0 for Z and for no time zone."""
    if "z" not in field:
        return tf.zeros_like(matched, tf.int64)
    digits = tf.strings.regex_replace(field["z"], "[^0-9]", "")
    padded = tf.where(tf.equal(digits, ""), "0000", digits)
    minutes = _integer(tf.strings.substr(padded, 0, 2)) * 60 + _integer(tf.strings.substr(padded, 2, 2))
    return tf.where(tf.strings.regex_full_match(field["z"], "-.*"), -minutes, minutes)


def _or_nan(numbers: tf.Tensor, known: tf.Tensor) -> tf.Tensor:
    return tf.where(known, numbers, tf.constant(math.nan, tf.float64))
