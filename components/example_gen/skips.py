"""Records that are left out, counted while they are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.configs.errors import DataError

TOLD = 20
"""Bad records that are told one by one; the others are only counted."""


@dataclass(frozen=True)
class Skipped:
    """Records that were left out: how many, and for the first ones where they stand and what is wrong."""

    count: int = 0
    told: tuple[str, ...] = ()

    def __add__(self, other: Skipped) -> Skipped:
        return Skipped(self.count + other.count, (self.told + other.told)[:TOLD])


class Skips:
    """Takes what would be an error for each record that is left out. `told`: the number of those to be told one by
    one; finding the line of a record costs a look at all before it.
    """

    def __init__(self, told: int = TOLD) -> None:
        self._limit, self._count = told, 0
        self._told: list[str] = []

    def add(self, error: Callable[[], DataError]) -> None:
        """One more record."""
        self._count += 1
        if len(self._told) < self._limit:
            self._told.append(str(error()).splitlines()[0])

    @property
    def skipped(self) -> Skipped:
        """All so far."""
        return Skipped(self._count, tuple(self._told))
