"""What every source can do for ExampleGen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from components.example_gen.types import Kind, widest

Task = TypeVar("Task")
Result = TypeVar("Result")


class Spread(Protocol):
    """Calls a function on every task, wherever that is, and gives the results in the order of the tasks."""

    def __call__(self, label: str, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> list[Result]:
        """Function, tasks and results must be picklable."""


LIGHT = 1 << 28
"""Bytes that are copied or looked through sooner than a Beam pipeline starts."""


def in_place(_label: str, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> list[Result]:
    """A Spread that spreads nothing: one task after the other, here."""
    return [function(task) for task in tasks]


@dataclass(frozen=True)
class Survey:
    """What a pass over some data found: rows of each file, bytes of text, the kind of each column."""

    rows: Mapping[str, int] = field(default_factory=dict)
    size: int = 0
    kinds: Mapping[str, Kind] = field(default_factory=dict)

    def __add__(self, other: Survey) -> Survey:
        names = {**self.kinds, **other.kinds}
        kinds = {
            name: widest([survey.kinds[name] for survey in (self, other) if name in survey.kinds]) for name in names
        }
        rows = {file: self.rows.get(file, 0) + other.rows.get(file, 0) for file in {**self.rows, **other.rows}}
        return Survey(rows, self.size + other.size, kinds)


class Source(Protocol):
    """Raw data as parts that are read independently of each other. Instances and parts are picklable."""

    def columns(self) -> list[str]:
        """The names of the columns; cheap, and without heavy imports."""

    def parts(self, spread: Spread) -> list[Any]:
        """The data in parts, in an order and of a size that depend on the data alone."""

    def survey(self, part: Any, declared: Mapping[str, Kind]) -> Survey:
        """Rows and kinds of a part, in one pass over all of it. Raises DataError for what cannot be read."""

    def batches(self, part: Any, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The rows of a part as columns of the given kinds, in batches of bounded size."""
