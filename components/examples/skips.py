"""Records that are skipped, counted as they are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.common.errors import DataError

MAX_REPORTED = 20
"""Bad records that are reported individually; the rest are only counted."""


@dataclass(frozen=True)
class Skipped:
    """Skipped records: their number, and for the first of them a message with the location and the reason.

    The fields are the keys of the JSON that is stored with spans and artifacts.
    """

    count: int = 0
    reported: tuple[str, ...] = ()

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
