"""What every source can do for ExampleGen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from headrace.components.example_gen.skips import TOLD, Skipped
from headrace.components.example_gen.types import Kind, widest

__all__ = [
    "LIGHT",
    "TOLD",
    "Head",
    "ListCounter",
    "Reading",
    "Result",
    "Sampled",
    "Skipped",
    "Source",
    "Spread",
    "Survey",
    "Surveyor",
    "Task",
    "for_work",
    "in_place",
]

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
class Reading:
    """How the data is to be read. `columns`: those to read, None for all; `skip_bad`: leave out records that cannot be
    read, instead of raising DataError.
    """

    columns: tuple[str, ...] | None = None
    skip_bad: bool = False

    def chosen(self, columns: Sequence[str]) -> list[str]:
        """Those of the data's columns that are read, in the data's order."""
        if self.columns is None:
            return list(columns)
        chosen = frozenset(self.columns)
        return [name for name in columns if name in chosen]


def for_work(spread: Spread, size: int) -> Spread:
    """`spread`, or `in_place` where it takes longer to start than to copy or look through `size` bytes, or where there
    are none.
    """
    return spread if size > LIGHT or (size and getattr(spread, "takes_small_work", False)) else in_place


@dataclass(frozen=True)
class Survey:
    """What a look at some data found: rows of each file, bytes of the values, the kind of each column, and what was
    left out (which is not among the rows).
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    size: int = 0
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)

    def __add__(self, other: Survey) -> Survey:
        names = {**self.kinds, **other.kinds}
        kinds = {
            name: widest([survey.kinds[name] for survey in (self, other) if name in survey.kinds]) for name in names
        }
        rows = {file: self.rows.get(file, 0) + other.rows.get(file, 0) for file in {**self.rows, **other.rows}}
        return Survey(rows, self.size + other.size, kinds, self.skipped + other.skipped)


class Source(Protocol):
    """Raw data as parts that are read independently of each other. Instances and parts are picklable."""

    def columns(self) -> list[str]:
        """The names of the columns that are read; cheap, and without heavy imports."""

    def parts(self, spread: Spread) -> list[Any]:
        """The data in parts, in an order and of a size that depend on the data alone."""

    def survey(self, part: Any, declared: Mapping[str, Kind]) -> Survey:
        """Rows and kinds of a part; from what is known of it, or in one pass over all of it. Raises DataError for what
        cannot be read.
        """

    def batches(self, part: Any, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The rows of a part as columns of the given kinds, in batches of bounded size."""


@runtime_checkable
class ListCounter(Protocol):
    """A source of which the first rows tell quickly how many values its lists have."""

    def most_values(self, names: Sequence[str]) -> dict[str, int]:
        """The most values that an example of the first rows has in each of these columns, of those that are lists."""


@dataclass(frozen=True)
class Head:
    """The first rows of a source, as a part of it. source: what reads them, perhaps without columns whose kinds take
    long to find; whole: whether they are all rows; settled: whether rows behind them cannot make numbers texts.
    """

    source: Source
    part: Any
    whole: bool
    settled: bool


@runtime_checkable
class Sampled(Protocol):
    """A source of which the first rows are quickly read."""

    def head(self) -> Head:
        """A few megabytes of rows. Raises DataError for what cannot be read."""


@runtime_checkable
class Surveyor(Protocol):
    """A source whose survey reads all columns anyhow, and can hand them on."""

    def survey_keeping(self, part: Any, declared: Mapping[str, Kind], keep: Callable[[pa.RecordBatch], None]) -> Survey:
        """As `Source.survey`; `keep` gets the rows in order, with the kinds that were found until then."""
