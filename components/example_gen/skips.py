"""Records that are skipped, counted as they are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.common.errors import DataError

TOLD = 20
"""Bad records that are reported individually; the rest are only counted."""


@dataclass(frozen=True)
class Skipped:
    """Skipped records: their number, and for the first of them a message with the location and the reason.

    The fields are the keys of the JSON that is stored with spans and artifacts.
    """

    count: int = 0
    told: tuple[str, ...] = ()

    def __add__(self, other: Skipped) -> Skipped:
        return Skipped(self.count + other.count, (self.told + other.told)[:TOLD])


class Skips:
    """Collects the errors of skipped records.

    `told`: how many of them to report individually. The line number of a record costs a pass over all before it.
    """

    def __init__(self, told: int = TOLD) -> None:
        self._limit, self._count = told, 0
        self._told: list[str] = []

    def add(self, error: Callable[[], DataError]) -> None:
        """Count one more record; `error` is called only if it is to be reported."""
        self._count += 1
        if len(self._told) < self._limit:
            self._told.append(str(error()).splitlines()[0])

    @property
    def skipped(self) -> Skipped:
        """The records so far."""
        return Skipped(self._count, tuple(self._told))
