"""Whether the values of a column are dates, and how they are written.

find_dates(facts)      # Dates(format="%d/%m/%Y", parts=("year", "month", "weekday"))
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.inference.facts import ColumnFacts
from headrace.configs.schema.features.calendar import EPOCH_UNITS, DatePattern, Part, pattern_of

_DAYS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d %b %Y", "%b %d, %Y", "%b %d %Y")
_MORE_DAYS = ("%d %B %Y", "%B %d, %Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%b-%Y", "%d-%b-%y", "%Y.%m.%d")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
FORMATS = (None, *(day + time for day in (*_DAYS, *_MORE_DAYS) for time in _TIMES), "%Y%m%d", "%Y%m%d%H%M%S")
"""The formats that are tried, in this order; of two that fit all values, the first is used."""
TIMES_OF_DAY = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p")
"""The formats of times without a date, tried after these."""
EPOCHS = {"epoch_s": (10**8, 4 * 10**9), "epoch_ms": (10**11, 4 * 10**12), "epoch_us": (10**14, 4 * 10**15)}
"""For numbers since 1970, the range of values (from 1973 to 2096) in which a column named like a time counts as one."""
TIME_NAME = re.compile(r"(?i)(^|_)(time|date|datetime|timestamp|ts|at|epoch|created|updated)(_|$)|timestamp")
DIRECTIVES_OF: Mapping[Part, tuple[str, ...]] = {
    "year": ("Y", "y"),
    "month": ("m", "b", "B"),
    "day": ("d",),
    "weekday": ("d",),
    "hour": ("H", "I"),
}
"""The directives on which each part depends."""
INFERRED: tuple[Part, ...] = ("year", "month", "weekday", "hour")
"""The parts that are computed from dates that nobody has described."""
_DAY_NUMBERS = (19000101, 21001231)


class Dates(NamedTuple):
    """format: as `column: datetime` takes it; parts: those that differ among the values; ambiguous: another format that
    fits as well, with day and month exchanged.
    """

    format: str | None
    parts: tuple[Part, ...]
    ambiguous: str | None = None


def find_dates(facts: ColumnFacts) -> Dates | None:
    """How the dates of a column are written; None if they are no dates."""
    if not facts.present or facts.is_list:
        return None
    if facts.scalar == "int":
        return _of_integers(facts)
    if facts.scalar != "string":
        return None
    first = facts.texts[0].as_py()
    fitting = [written for written in _formats_of(first, FORMATS) if _fits(facts, pattern_of(written))]
    if not fitting:
        return _times_of_day(facts)
    exchanged = _exchanged(fitting[0])
    return Dates(fitting[0], _parts(facts, fitting[0]), exchanged if exchanged in fitting else None)


def _times_of_day(facts: ColumnFacts) -> Dates | None:
    """None if all are in the same hour: they are more likely durations."""
    formats = _formats_of(facts.texts[0].as_py(), TIMES_OF_DAY)
    written = next((each for each in formats if _fits(facts, pattern_of(each))), None)
    if written is None or constant_part(facts, "hour", written) is not None:
        return None
    return Dates(written, ("hour",))


def are_dates_of_several_formats(facts: ColumnFacts) -> bool:
    """Whether each text of a column, for which `find_dates` has no format, is a date in some format."""
    return _all_are_dates(facts.texts.slice(0, 20)) and _all_are_dates(facts.texts)


def _all_are_dates(texts: pa.Array) -> bool:
    while len(texts):
        others = texts
        for written in _formats_of(texts[0].as_py(), FORMATS):
            others = others.filter(pc.invert(pc.match_substring_regex(others, f"^(?:{pattern_of(written).regex})$")))
        if len(others) == len(texts):
            return False
        texts = others
    return True


def _formats_of(text: str, formats: Sequence[str | None]) -> Sequence[str | None]:
    """The formats that this text may have, which is quicker to find than those that fit a whole column."""
    return [written for written in formats if _compiled(written).fullmatch(text)]


@cache
def _compiled(written: str | None) -> re.Pattern[str]:
    """What Python matches, RE2 may refuse in letters beyond ASCII, but not the other way round."""
    return re.compile(pattern_of(written).regex)


def _fits(facts: ColumnFacts, pattern: DatePattern) -> bool:
    return _all_match(facts.texts.slice(0, 20), pattern) and _all_match(facts.texts, pattern)


def _all_match(texts: pa.Array, pattern: DatePattern) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, f"^(?:{pattern.regex})$")).as_py())


def _of_integers(facts: ColumnFacts) -> Dates | None:
    if facts.least >= _DAY_NUMBERS[0] and facts.greatest <= _DAY_NUMBERS[1]:
        pattern = pattern_of("%Y%m%d")
        return Dates("%Y%m%d", _parts(facts, "%Y%m%d")) if _all_match(facts.texts, pattern) else None
    if not TIME_NAME.search(facts.name):
        return None
    for unit, (least, greatest) in EPOCHS.items():
        if least <= facts.least and facts.greatest <= greatest:
            return Dates(unit, ("year", "month", "weekday", "hour"))
    return None


def _parts(facts: ColumnFacts, written: str | None) -> tuple[Part, ...]:
    """The parts with more than one value. The weekday counts if the day of the month does: monthly data has none."""
    found = _fields(facts.texts, pattern_of(written))
    differing = (part for part in INFERRED if any(len(found.get(name, ())) > 1 for name in DIRECTIVES_OF[part]))
    return tuple(differing) or ("year",)


def constant_part(facts: ColumnFacts, part: Part, written: str | None) -> str | None:
    """The digits, or the name of the month, that this part has in all dates of a column: "" for hours if no date has a
    time of day. None if the part differs, if that is not certain, or if no value is such a date.

    A weekday never is: it follows from the whole date. Neither are parts of times with different time zones.
    """
    directives = DIRECTIVES_OF.get(part, ())
    if part == "weekday" or not directives:
        return None
    if written in EPOCH_UNITS:
        return "" if written == "epoch_days" and part == "hour" else None
    if facts.scalar == "float" or facts.is_list:
        return None
    pattern = pattern_of(written)
    texts = facts.texts.filter(pc.match_substring_regex(facts.texts, f"^(?:{pattern.regex})$"))
    found = _fields(texts, pattern)
    if not len(texts) or len(found.get("z", ())) > 1 or "p" in found:
        return None
    values = {value.lstrip("0") for name in directives for value in found.get(name, ())}
    return next(iter(values), "") if len(values) <= 1 else None


def _fields(texts: pa.Array, pattern: DatePattern) -> dict[str, list[str]]:
    """The distinct values of each directive, in texts that have the pattern."""
    found = pc.extract_regex(texts, f"^(?:{_named(pattern)})$")
    return {field.name: pc.unique(pc.struct_field(found, field.name)).to_pylist() for field in found.type}


def _named(pattern: DatePattern) -> str:
    """The regular expression with a name for each of its groups."""
    fields = iter(pattern.fields)
    return re.sub(r"\((?!\?)", lambda _: f"(?P<{next(fields)}>", pattern.regex)


def _exchanged(written: str | None) -> str | None:
    """The format with day and month exchanged, where both are numbers."""
    if written is None or not written.startswith("%d") or "%m" not in written:
        return None
    return written.translate(str.maketrans("dm", "md"))
