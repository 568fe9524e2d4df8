"""Span patterns: which files belong to which span, and which spans a run reads.

trips/{YYYY}-{MM}-{DD}/*.csv      one span per day, numbered by the days since 1970-01-01, as in TFX
trips/{SPAN}/v{VERSION}/*.csv     numbered spans; only the newest version of a span is read
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from headrace.common.errors import DataError, NoDataError
from headrace.configs.schema.data import DATE_PLACEHOLDERS, PLACEHOLDER, DataConfig, placeholders

EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True)
class SpanFile:
    """A file of a span. `digits`: those of the span and the version, as the path has them; `split`: the split that has
    it, if splits have their own files.
    """

    path: str
    span: int
    version: int | None
    digits: tuple[str, ...] = ()
    split: str = ""


def glob_of(pattern: str) -> str:
    """A glob pattern that matches at least the files of the span pattern."""
    return PLACEHOLDER.sub("*", pattern)


def match_files(pattern: str, paths: Iterable[str]) -> Iterator[SpanFile]:
    """The files among `paths` that match the pattern. Raises DataError for a date that does not exist."""
    expression = _expression(pattern)
    for path in paths:
        found = expression.search(path)
        if found is not None:
            fields = {name: int(value) for name, value in found.groupdict().items()}
            yield SpanFile(path, _number(fields, path), fields.get("VERSION"), tuple(found.groupdict().values()))


def span_number(span: int | str) -> int:
    """The number of a span that is given by number or by date. Raises DataError for a date that does not exist."""
    if isinstance(span, int):
        return span
    try:
        return (dt.date.fromisoformat(span) - EPOCH).days
    except ValueError:
        raise DataError(f"`data.spans`: {span!r} is not a date", hint="Dates are written YYYY-MM-DD") from None


def span_name(number: int, pattern: str) -> str:
    """What users call the span: its date, or its number."""
    dated = placeholders(pattern) >= DATE_PLACEHOLDERS and number <= (dt.date.max - EPOCH).days
    return str(EPOCH + dt.timedelta(number)) if dated else str(number)


def path_of_span(pattern: str, number: int) -> str:
    """The path with the number or the date of a span in place of its placeholders. `{SPAN:4}` has at least 4 digits."""
    dated = placeholders(pattern) >= DATE_PLACEHOLDERS
    day = EPOCH + dt.timedelta(number) if dated else EPOCH
    values = {"YYYY": f"{day:%Y}".zfill(4), "MM": f"{day:%m}", "DD": f"{day:%d}"}
    return PLACEHOLDER.sub(
        lambda found: values.get(found["name"]) or str(number).zfill(int(found["width"] or 1)), pattern
    )


def span_window(data: DataConfig, numbers: Sequence[int]) -> tuple[int, int]:
    """The numbers of the first and the last span that a run reads, given those of the existing spans."""
    if isinstance(data.spans, tuple):
        first, last = map(span_number, data.spans)
        return first, last
    last = _newest(data, numbers) if data.spans is None else span_number(data.spans)
    return (0 if data.window == "all" else last - data.window + 1), last


def _newest(data: DataConfig, numbers: Sequence[int]) -> int:
    """The newest span up to `data.run_date`, less `data.delay`. Raises DataError if there is none."""
    if data.run_date is None:
        return max(numbers)
    latest = span_number(data.run_date) - data.delay
    seen = [number for number in numbers if number <= latest]
    if not seen:
        day = EPOCH + dt.timedelta(latest)
        raise NoDataError(
            f"there is no span up to {day}, which `data.run_date` asks for",
            hint=f"The first is {EPOCH + dt.timedelta(min(numbers))}",
        )
    return max(seen)


def _expression(pattern: str) -> re.Pattern[str]:
    """A regular expression for the end of the path. A placeholder that occurs twice must have one value."""
    plain = re.sub(r"^([a-z0-9]+://[^/{]*/|~?/|(\.{1,2}/)+)", "", pattern)
    seen: set[str] = set()
    parts = []
    for text, name, width in _tokens(plain):
        parts.append(_glob_expression(text))
        if name:
            whole = (
                r"(?<!\d)" if text.endswith("*") else ""
            )  # a wildcard must not match the first digits of the number after it
            digits = {"YYYY": r"\d{4}", "MM": r"\d{2}", "DD": r"\d{2}"}.get(name, rf"{whole}\d{{{width},}}")
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{digits})")
            seen.add(name)
    return re.compile(f"(?:^|/){''.join(parts)}$")


def _tokens(pattern: str) -> Iterator[tuple[str, str, int]]:
    """Text, the name of the placeholder after it ("" after the last text), and the least number of its digits."""
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
            "the date in this path does not exist", file=path, hint="Rename the file, or narrow the pattern"
        ) from None
