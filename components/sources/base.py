"""The interface between ExampleGen and the kinds of sources."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from headrace.components.examples.skips import Skipped
from headrace.components.sources.types import ARROW, Kind, widest

Task = TypeVar("Task")
Result = TypeVar("Result")
Piece = TypeVar("Piece")
Setting = TypeVar("Setting")

SMALL_WORK = 1 << 28
"""Bytes that one process copies or scans in less time than a Beam pipeline takes to start."""

HEAD_ROWS, HEAD_BYTES = 10_000, 1 << 25
"""How many of the first rows are looked at before a run, unless they take more bytes than this."""
HEAD_FILES = 8
"""Of how many files these rows are, at most."""

_DEADLINE: ContextVar[float | None] = ContextVar("_DEADLINE", default=None)


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Give the servers of data `seconds` in total to answer inside the block. After that, a source that waits for one
    raises UnreachableError.
    """
    token = _DEADLINE.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float | None:
    """How many seconds a server has left to answer, at least a tenth; None: it may take any time."""
    deadline = _DEADLINE.get()
    return None if deadline is None else max(deadline - time.monotonic(), 0.1)


class ParallelMap(Protocol):
    """Calls a function on every task, in whatever process or thread, and returns the results in task order."""

    def __call__(self, label: str, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> list[Result]:
        """The function, the tasks and the results must be picklable."""


def serial_map(_label: str, function: Callable[[Task], Result], tasks: Sequence[Task], /) -> list[Result]:
    """A ParallelMap without parallelism: the tasks run one after another in the caller."""
    return [function(task) for task in tasks]


def choose_map(parallel_map: ParallelMap, size: int) -> ParallelMap:
    """`parallel_map` if `size` bytes are worth its start-up time, else `serial_map`."""
    takes_small_work = getattr(parallel_map, "takes_small_work", False)
    return parallel_map if size > SMALL_WORK or (size and takes_small_work) else serial_map


@dataclass(frozen=True)
class ReadOptions:
    """How the data is read.

    columns: the columns to read; None: all of them. skip_bad: skip records that cannot be read instead of raising
    DataError.
    """

    columns: tuple[str, ...] | None = None
    skip_bad: bool = False

    def select(self, columns: Sequence[str]) -> list[str]:
        """The columns to read among those of the data, in the order of the data."""
        if self.columns is None:
            return list(columns)
        selected = frozenset(self.columns)
        return [name for name in columns if name in selected]


@dataclass(frozen=True)
class ScanResult:
    """The result of scanning some data.

    rows: the number of readable rows by file; size: the bytes of the values; kinds: the kind of each column; skipped:
    the records that were skipped, which `rows` does not count; splits: the rows of each split that has its own data;
    objects: the paths of nested objects, each with a file that has one.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    size: int = 0
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    skipped: Skipped = field(default_factory=Skipped)
    splits: Mapping[str, int] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: ScanResult) -> ScanResult:
        names = {**self.kinds, **other.kinds}
        kinds = {name: widest([scan.kinds[name] for scan in (self, other) if name in scan.kinds]) for name in names}
        rows, splits = _added(self.rows, other.rows), _added(self.splits, other.splits)
        objects = {**other.objects, **self.objects}
        return ScanResult(rows, self.size + other.size, kinds, self.skipped + other.skipped, splits, objects)


class Source(Protocol):
    """Raw data, cut into parts that are read independently. Sources and parts are picklable."""

    def columns(self) -> list[str]:
        """The names of the columns to read. Cheap, and without heavy imports."""

    def parts(self, parallel_map: ParallelMap) -> list[Any]:
        """The parts of the data. Their order and sizes depend on the data alone.

        parallel_map: for sources that have to read their files to cut them; the others ignore it.
        """

    def scan(self, part: Any, declared: Mapping[str, Kind]) -> ScanResult:
        """Count the rows of a part and find the kinds of its columns, from metadata or in one pass over its values.

        Raises DataError for data that cannot be read.
        """

    def batches(self, part: Any, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The rows of a part as columns of the given kinds, in batches of bounded size."""


@runtime_checkable
class RowScanner(Protocol):
    """A source whose scan reads every column, so that the caller can store the rows instead of reading them twice."""

    def scan_rows(
        self, part: Any, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """Like `Source.scan`. `on_batch` receives the rows in order, in the kinds that are known by then."""
        ...

    def scan(self, part: Any, declared: Mapping[str, Kind]) -> ScanResult:
        return self.scan_rows(part, declared, lambda _: None)


@dataclass(frozen=True)
class Head:
    """The first rows of a source, as a part of it.

    source: what reads the part; it may lack columns whose kinds take long to find. whole: whether these are all rows.
    settled: whether later rows cannot turn a column of numbers into one of strings. scanned: the part with some rows
    from elsewhere, which may contradict it; None: the part alone. notes: what is odd, and a run accepts.
    """

    source: Source
    part: Any
    whole: bool
    settled: bool
    scanned: Any = None
    notes: tuple[str, ...] = ()


@runtime_checkable
class HasHead(Protocol):
    """A source whose first rows are quick to read."""

    def head(self) -> Head:
        """HEAD_ROWS rows or HEAD_BYTES bytes, or a few more. Raises DataError for data that cannot be read."""


def first_pieces(pieces: Iterable[tuple[Piece, int, int]]) -> tuple[list[Piece], bool]:
    """The first pieces of some data, until they have HEAD_ROWS rows or HEAD_BYTES bytes, and whether these are all.

    pieces: each with its rows and its bytes. One more than needed is asked for.
    """
    chosen, rows, size = list[Piece](), 0, 0
    for piece, own_rows, own_size in pieces:
        if chosen and (rows >= HEAD_ROWS or size >= HEAD_BYTES):
            return chosen, False
        chosen.append(piece)
        rows, size = rows + own_rows, size + own_size
    return chosen, True


@runtime_checkable
class HasBooleans(Protocol):
    """A source that reports which columns are of false and true, which it reads as 0 and 1."""

    def booleans(self) -> frozenset[str]:
        """These columns. Empty if the source does not report types."""


@runtime_checkable
class HasTypes(Protocol):
    """A source whose columns have Arrow types, and can be read as such: as the kind `stored`."""

    def stored_types(self, kinds: Mapping[str, Kind]) -> dict[str, pa.DataType]:
        """The types of these columns, where they are the same in every file and not those of the kinds."""


def common_types(schemas: Iterable[Mapping[str, pa.DataType]], kinds: Mapping[str, Kind]) -> dict[str, pa.DataType]:
    """`stored_types` of files with these schemas, which are looked at as long as a column is left."""
    found: dict[str, pa.DataType] | None = None
    for types in schemas:
        if found is None:
            found = {name: types[name] for name, kind in kinds.items() if types.get(name, ARROW[kind]) != ARROW[kind]}
        found = {name: own for name, own in found.items() if types.get(name) == own}
        if not found:
            break
    return found or {}


def undivided(setting: Setting | dict[str, Any]) -> Setting:
    """The value of a setting that may differ between splits, of a source that is that of one split."""
    if isinstance(setting, dict):
        raise TypeError("the source has to be opened by split")
    return setting


def _added(counts: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + others.get(name, 0) for name in {**counts, **others}}


def suggest_columns(name: str, columns: Sequence[str]) -> str:
    """A hint that names the columns most similar to an unknown one."""
    similar = difflib.get_close_matches(name, columns, n=3)
    if similar:
        return f"Did you mean {' or '.join(map(repr, similar))}?"
    return f"The columns are {', '.join(columns[:20])}{', ...' if len(columns) > 20 else ''}"
