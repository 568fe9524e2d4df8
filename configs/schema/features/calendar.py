"""Features over dates and times, and over truth values; and the formats in which dates are written.

pattern_of("%d/%m/%Y").regex    # RE2: (3[0-1]|[1-2][0-9]|...)/(...)/([0-9]{4})
pattern_of("%d/%m/%Y").fields   # ("d", "m", "Y"): what each group holds
"""

from __future__ import annotations

import datetime as dt
import re
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import model_validator

from headrace.configs.schema.features.base import Categorical, SingleColumn
from headrace.configs.schema.section import KeyPath, Name

Part = Literal["year", "month", "day", "weekday", "hour", "age"]
PART_CATEGORIES = {"month": 12, "day": 31, "weekday": 7, "hour": 24}
"""The parts that return to their start, and how many values each has."""
EPOCH_UNITS = {"epoch_days": (86400, 1), "epoch_s": (1, 1), "epoch_ms": (1, 1000), "epoch_us": (1, 1_000_000)}
"""Formats of numbers that count from 1970-01-01 UTC: the seconds of their unit, as a factor and a divisor."""
TRUE_WORDS = ("true", "t", "yes", "y", "on", "1")
FALSE_WORDS = ("false", "f", "no", "n", "off", "0")

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
DIRECTIVES = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "1[0-2]|0[1-9]|[1-9]",
    "b": f"(?i:{'|'.join(MONTHS)})",
    "B": f"(?i:{_LONG_MONTHS})",
    "d": "3[0-1]|[1-2][0-9]|0[1-9]|[1-9]",
    "H": "2[0-3]|[0-1][0-9]|[0-9]",
    "I": "1[0-2]|0[1-9]|[1-9]",
    "p": "(?i:am|pm)",
    "M": "[0-5][0-9]|[0-9]",
    "S": "[0-5][0-9]|[0-9]",
    "f": "[0-9]{1,9}",
    "z": "Z|[+-][0-9]{2}:?[0-9]{2}",
}
"""The directives of Python's strptime that a format may use, and what each matches (as strptime does, in English; `%f`
also matches nanoseconds)."""
_ISO = (
    "([0-9]{4})-(1[0-2]|0[1-9])-(3[0-1]|[1-2][0-9]|0[1-9])"
    "(?:[T ](2[0-3]|[0-1][0-9]):([0-5][0-9])(?::([0-5][0-9])(?:[.][0-9]+)?)?)? ?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)


class DatePattern(NamedTuple):
    """An RE2 pattern of whole texts. `fields`: the directive of each of its groups, in order."""

    regex: str
    fields: tuple[str, ...]


ISO_8601 = DatePattern(_ISO, ("Y", "m", "d", "H", "M", "S", "z"))
"""`2026-11-21`, `2026-11-21 12:30`, `2026-11-21T12:30:00.125Z` or `...+01:00`."""


@cache
def pattern_of(date_format: str | None) -> DatePattern:
    """The pattern of a format of strptime; ISO 8601 for None. Raises ValueError with what is wrong with the format."""
    if date_format is None:
        return ISO_8601
    regex, fields = "", list[str]()
    for directive, literal in re.findall(r"%(.?)|([^%]+)", date_format, flags=re.DOTALL):
        if literal:
            regex += re.sub(r"\s+", r"\\s+", re.escape(literal).replace("\\ ", " "))
        elif directive == "%":
            regex += "%"
        elif directive not in DIRECTIVES:
            known = ", ".join(f"%{name}" for name in DIRECTIVES)
            raise ValueError(f"`%{directive}` is not supported; use {known}, {', '.join(EPOCH_UNITS)}")
        else:
            regex += f"({DIRECTIVES[directive]})"
            fields.append(directive)
    _check_fields(date_format, fields)
    return DatePattern(regex, tuple(fields))


def has_date(date_format: str | None) -> bool:
    """Whether a format of `pattern_of`, or one of EPOCH_UNITS, has more than a time of day."""
    return date_format in EPOCH_UNITS or "d" in pattern_of(date_format).fields


def _check_fields(date_format: str, fields: list[str]) -> None:
    if len(set(fields)) < len(fields) or len(fields) > 9:
        raise ValueError(f"{date_format} names a part twice; name each once")
    if ("I" in fields) != ("p" in fields) or {"I", "H"} <= set(fields):
        raise ValueError(f"{date_format}: use %H, or %I with %p")
    if {"H", "I"} & {*fields} and not {*fields} & {*"YymbBd"}:
        return  # a time of day
    for what, names in (("year", "Yy"), ("month", "mbB"), ("day", "d")):
        if len(set(names) & set(fields)) != 1:
            need = " or ".join(f"%{name}" for name in names)
            raise ValueError(f"{date_format} needs one {what}: {need}")


class DatetimeFeature(SingleColumn, Categorical):
    """One part of a date or time, as a category (int64 of shape [batch]) or a number (float32 of shape [batch]).

    Use one feature for each part. A text with a time zone is converted to UTC; any other is used as it is written. A
    text that does not match the format, or is no date, such as 2026-02-30, is missing.
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.datetime.datetime_column"
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "float", "string")
    remedy: ClassVar[str] = "use a vocabulary or hashed feature"

    column: Literal["datetime"]
    """`datetime`."""
    part: Part
    """year; month; day (of the month); weekday (Monday first); hour; or age: the days from the column's time to
    `reference`, with fractions."""
    encoding: Literal["category", "number", "sine", "cosine"] | None = None
    """How the model gets the part. category; number: z-score over the train split; sine, cosine: of its position in the
    year, month (of 31 days), week or day, so that the last value is near the first; use one feature of each. null:
    number for year and age, else category. A missing value is the last category, the mean, or 0."""
    format: Name | None = None
    """How the dates are written, as in Python's strptime: `%d/%m/%Y %H:%M`. For numbers that count from 1970-01-01 UTC:
    `epoch_days`, `epoch_s`, `epoch_ms` or `epoch_us`. Times of day, such as `%H:%M`, have no part but the hour. null:
    ISO 8601 (`2026-11-21`, `2026-11-21 12:30:00`, `2026-11-21T12:30:00Z`), which is how dates in Parquet and databases
    are read."""
    reference: Name | None = None
    """Age only: the time to which the age is counted, in ISO 8601, such as `2026-01-01`. Set either this or
    `reference_key`."""
    reference_key: Name | None = None
    """Age only: the data column with that time, in the same format."""

    @model_validator(mode="after")
    def _consistent_settings(self) -> DatetimeFeature:
        if not has_date(self.format) and self.part != "hour":
            raise ValueError(f"{self.format} is a time of day, which has no {self.part}; use `part: hour`")
        if self.encoding is not None and self.part not in PART_CATEGORIES and self.encoding != "number":
            raise ValueError(f"`part: {self.part}` is a number; remove `encoding: {self.encoding}`")
        given = [name for name in ("reference", "reference_key") if getattr(self, name) is not None]
        if self.part != "age" and given:
            raise ValueError(f"`{given[0]}` is for `part: age`; remove it")
        if self.part == "age" and len(given) != 1:
            raise ValueError("`part: age` needs either `reference: 2026-01-01` or `reference_key` with a data column")
        if self.reference is not None:
            self.reference_seconds()
        return self

    def reference_seconds(self) -> float:
        """`reference` in seconds since 1970-01-01 UTC. Raises ValueError if it is not in ISO 8601."""
        try:
            when = dt.datetime.fromisoformat(self.reference or "")
        except ValueError:
            raise ValueError(f"reference: {self.reference} is not a date in ISO 8601, such as 2026-01-01") from None
        return (when if when.tzinfo else when.replace(tzinfo=dt.UTC)).timestamp()

    def column_settings(self, name: str) -> dict[KeyPath, str]:
        reference: dict[KeyPath, str] = {("reference_key",): self.reference_key} if self.reference_key else {}
        return {**super().column_settings(name), **reference}

    @property
    def is_number(self) -> bool:
        return (self.encoding or "category") != "category" or self.part not in PART_CATEGORIES

    def description(self) -> str:
        what = f"{self.part} of a {'date' if has_date(self.format) else 'time'} ({self.format or 'ISO 8601'})"
        if self.part == "age":
            what = f"days until {self.reference or self.reference_key}"
        if not self.is_number:
            return f"{what}; missing: a category"
        waves = self.encoding in {"sine", "cosine"}
        return f"{self.encoding} of the {what}; missing: 0" if waves else f"{what}, z-score; missing: mean"

    def model_parts(self, model: Any) -> str:
        return "number" if self.is_number else super().model_parts(model)


class BooleanFeature(SingleColumn, Categorical):
    """False or true: int64 of shape [batch]. The categories are 0 (false), 1 (true) and 2 (missing).

    True is `true`, `t`, `yes`, `y`, `on` or 1, false is `false`, `f`, `no`, `n`, `off` or 0, in upper or lower case.
    Any other value is missing.
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.boolean.BooleanColumn"
    ordered: ClassVar[bool] = False
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "float", "string")

    column: Literal["boolean"]
    """`boolean`."""
    missing: bool | None = None
    """The value that replaces a missing one. null: missing is a category of its own, the last."""

    def description(self) -> str:
        return "false or true" + ("" if self.missing is None else f"; missing: {str(self.missing).lower()}")
