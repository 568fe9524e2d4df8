"""Records that are skipped, counted as they are found; and those that stop a run, told in one message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.common.errors import BadRecordError, DataError
from headrace.common.figures import plural
from headrace.configs.schema.data import DataConfig, skip_setting
from headrace.configs.schema.sources import CsvSource
from headrace.configs.schema.sources.csv import USUAL_ENCODING

MAX_REPORTED = 20
"""Bad records that are reported individually; the rest are only counted."""
LISTED = 10
"""Bad records that a message lists beside the first one."""
MAX_SKIPPED = 0.1
"""The fraction of records that cannot be read, beyond which the others say little of the data."""
_PLACE = re.compile(r"(.+?):(\d+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class Skipped:
    """Skipped records: their number, and for the first of them a message with the location and the reason.

    The fields are the keys of the JSON that is stored with spans and artifacts.
    """

    count: int = 0
    reported: tuple[str, ...] = ()

    def are_few(self, others: int) -> bool:
        """Whether the other records, of this number, say much of the data."""
        return others > 0 and self.count <= MAX_SKIPPED * (others + self.count)

    def __add__(self, other: Skipped) -> Skipped:
        return Skipped(self.count + other.count, (self.reported + other.reported)[:MAX_REPORTED])


class Skips:
    """Collects the errors of skipped records.

    `reported`: how many of them to report individually. The line number of a record costs a pass over all before it.
    """

    def __init__(self, reported: int = MAX_REPORTED) -> None:
        self._limit, self._count = reported, 0
        self._reported: list[str] = []

    def add(self, error: Callable[[], DataError]) -> None:
        """Count one more record; `error` is called only if it is to be reported."""
        self._count += 1
        if len(self._reported) < self._limit:
            self._reported.append(str(error()).splitlines()[0])

    @property
    def skipped(self) -> Skipped:
        """The records so far."""
        return Skipped(self._count, tuple(self._reported))


@contextmanager
def skipped_in_section(data: DataConfig) -> Iterator[None]:
    """Let the error about a record of this data that cannot be read name the setting that skips it, which is beside
    the source: `predict.on_bad_record` for `predict.source`.
    """
    try:
        yield
    except BadRecordError as error:
        raise error.skipped_by(skip_setting(data)) from None


def lenient(data: DataConfig) -> Iterator[DataConfig]:
    """The settings by which data with records that cannot be read may be read all the same, to see what else is wrong
    with it: without these records, and in the encoding that is usual where it is not UTF-8.
    """
    sources = [data.source]
    if isinstance(data.source, CsvSource) and data.source.encoding != USUAL_ENCODING:
        sources.append(data.source.model_copy(update={"encoding": USUAL_ENCODING}))
    for source in sources:
        yield data.model_copy(update={"on_bad_record": "skip", "source": source})


def with_others(error: DataError, skipped: Skipped, readable: int) -> str:
    """The message about a record that cannot be read, and about the others."""
    return "\n  ".join([str(error), *others_of(error, skipped, readable)])


def others_of(error: DataError, skipped: Skipped, readable: int, *, of_column: bool = False) -> list[str]:
    """Lines about the other records that cannot be read: those with the same mistake are in one.

    Args:
        error: About the first of them.
        skipped: All such records, the first one too.
        readable: The number of records that can be read. If these are fewer, there are no lines, as the mistake is in
            how the file is read.
        of_column: Whether the others are only those with a mistake in the same column.
    """
    first = str(error).partition("\n")[0]
    named = "" if error.column is None or not of_column else f"column {error.column!r}: "
    others = [each for each in skipped.reported if named in each]
    if first in others:
        others.remove(first)
    count = skipped.count - len(skipped.reported) + len(others)
    if not count or skipped.count > readable:
        return []
    return [f"{plural(count, 'other record')} cannot be read:", *_lines(others, count)]


def listed(skipped: Skipped) -> list[str]:
    """A line for each mistake of the first of these records, and the number of the others."""
    return _lines(skipped.reported, skipped.count)


def _lines(reported: Sequence[str], count: int) -> list[str]:
    lines: dict[tuple[str, str], list[str]] = {}
    for each in reported[:LISTED]:
        found = _PLACE.fullmatch(each)
        file, line, what = found.groups() if found else ("", "", each)
        lines.setdefault((file, what), []).append(line)
    more = [f"and {count - LISTED:,} more"] if count > len(reported[:LISTED]) else []
    return [
        *(f"{file}:{', '.join(numbers)}: {what}" if file else what for (file, what), numbers in lines.items()),
        *more,
    ]
