"""Spans in paths: which files belong to which span, and which spans a run reads.

trips/{YYYY}-{MM}-{DD}/*.csv      a span for each day; its number is the days since 1970-01-01, as TFX counts
trips/{SPAN}/v{VERSION}/*.csv     numbered spans; of several versions of a span the newest is read
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.configs.data import DataConfig
from headrace.configs.errors import DataError
from headrace.configs.span_fields import DATE, PLACEHOLDER, placeholders

EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True)
class Found:
    """A file of a span. `written`: the digits of the span and the version as they stand in the path."""

    path: str
    span: int
    version: int | None
    written: tuple[str, ...] = ()


def glob_of(pattern: str) -> str:
    """The glob pattern that takes at least the files that the pattern means."""
    return PLACEHOLDER.sub("*", pattern)


def matched(pattern: str, paths: Iterable[str]) -> Iterator[Found]:
    """The files among `paths` that fit the pattern, with their span. Raises DataError for a date that is none."""
    expression = _expression(pattern)
    for path in paths:
        found = expression.search(path)
        if found is not None:
            fields = {name: int(value) for name, value in found.groupdict().items()}
            yield Found(path, _number(fields, path), fields.get("VERSION"), tuple(found.groupdict().values()))


def number_of(span: int | str) -> int:
    """The number of a span that is named by its number or its date. Raises DataError for a date that does not exist."""
    if isinstance(span, int):
        return span
    try:
        return (dt.date.fromisoformat(span) - EPOCH).days
    except ValueError:
        raise DataError(f"`data.spans`: {span!r} is no date", hint="Dates are written YYYY-MM-DD") from None


def name_of(number: int, pattern: str) -> str:
    """What people call the span: its date, or its number."""
    dated = placeholders(pattern) >= DATE and number <= (dt.date.max - EPOCH).days
    return str(EPOCH + dt.timedelta(number)) if dated else str(number)


def window_of(data: DataConfig, numbers: Sequence[int]) -> tuple[int, int]:
    """The first and the last number that a run reads, of the spans that there are."""
    if isinstance(data.spans, tuple):
        first, last = map(number_of, data.spans)
        return first, last
    last = _newest(data, numbers) if data.spans is None else number_of(data.spans)
    return (0 if data.window == "all" else last - data.window + 1), last


def _newest(data: DataConfig, numbers: Sequence[int]) -> int:
    """The newest span that a run of `data.run_date` looks at. Raises DataError if there is none."""
    if data.run_date is None:
        return max(numbers)
    latest = number_of(data.run_date) - data.delay
    seen = [number for number in numbers if number <= latest]
    if not seen:
        day = EPOCH + dt.timedelta(latest)
        raise DataError(
            f"there is no span up to {day}, as `data.run_date` asks for",
            hint=f"The first is {EPOCH + dt.timedelta(min(numbers))}",
        )
    return max(seen)


def _expression(pattern: str) -> re.Pattern[str]:
    """A regular expression for the end of the path. A field that stands twice has the same value in both places."""
    plain = re.sub(r"^([a-z0-9]+://[^/{]*/|~?/|(\.{1,2}/)+)", "", pattern)
    seen: set[str] = set()
    parts = []
    for text, name, width in _pieces(plain):
        parts.append(_glob_expression(text))
        if name:
            whole = r"(?<!\d)" if text.endswith("*") else ""  # a wildcard takes no digits of the number behind it
            digits = {"YYYY": r"\d{4}", "MM": r"\d{2}", "DD": r"\d{2}"}.get(name, rf"{whole}\d{{{width},}}")
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{digits})")
            seen.add(name)
    return re.compile(f"(?:^|/){''.join(parts)}$")


def _pieces(pattern: str) -> Iterator[tuple[str, str, int]]:
    """Text, the name of the placeholder after it, which is empty for the last, and the digits it has at least."""
    end = 0
    for found in PLACEHOLDER.finditer(pattern):
        yield pattern[end : found.start()], found["name"], int(found["width"] or 1)
        end = found.end()
    yield pattern[end:], "", 1


def _glob_expression(text: str) -> str:
    out = ""
    for piece in re.split(r"(\*\*/?|\*|\?|\[!?[^]]+\])", text):
        if piece.startswith("**"):
            out += "(?:.*/)?" if piece.endswith("/") else ".*"
        elif piece == "*":
            out += "[^/]*"
        elif piece == "?":
            out += "[^/]"
        elif piece.startswith("[") and piece.endswith("]") and len(piece) > 2:
            out += piece.replace("[!", "[^", 1)
        else:
            out += re.escape(piece)
    return out


def _number(fields: dict[str, int], path: str) -> int:
    if "SPAN" in fields:
        return fields["SPAN"]
    try:
        return (dt.date(fields["YYYY"], fields["MM"], fields["DD"]) - EPOCH).days
    except ValueError:
        raise DataError(
            "there is no such date as in this path", file=path, hint="Rename it, or narrow the pattern"
        ) from None
