"""A generator of the user's as a source: rows are converted and written as they come, and never held as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from headrace.common.errors import DataError, TrainingError
from headrace.common.storage.files import UNKNOWN, FileState
from headrace.components.examples.skips import Skips
from headrace.components.sources.base import (
    HEAD_ROWS,
    Head,
    ParallelMap,
    ReadOptions,
    RowScanner,
    ScanResult,
    undivided,
)
from headrace.components.sources.conversion import convert_columns, row_errors, slice_batch
from headrace.components.sources.nested import parents_of
from headrace.components.sources.python.rows import RowBatch, batches_of, number_of_rows
from headrace.components.sources.stored_types import (
    ConversionError,
    beyond_int64,
    is_uint64,
    kind_in_file,
    stored_kind,
    text_kind,
)
from headrace.components.sources.types import LIST, Kind, widest
from headrace.configs.schema.sources import PythonSource

NAMED_ROWS = 200
"""How many of the first rows, or more if they are in one table, are searched for the names of the columns."""

_END = object()
_MARK = "code"
"""The state of rows that only the function's code decides, which counts for the cache key of ExampleGen by itself."""


@dataclass(frozen=True)
class YieldedRows:
    """The rows of one call of the function. path: the function, for messages; rows: after how many the function is
    stopped, None for never.
    """

    path: str
    rows: int | None = None


@dataclass(frozen=True)
class PythonRows(RowScanner):
    """The rows that a function yields."""

    source: PythonSource
    function: str
    options: ReadOptions = field(default_factory=ReadOptions)

    open_ended: ClassVar[bool] = True

    @classmethod
    def open(cls, source: PythonSource, files: Sequence[str] | None, options: ReadOptions) -> PythonRows:
        """Remember the function, which is called when its rows are read."""
        return cls(source, undivided(source.function), options)

    @classmethod
    def state(cls, source: PythonSource) -> list[FileState]:
        """What `fingerprint` returns now; without it, the same state always."""
        mark = _MARK if source.fingerprint is None else repr(_call(source.fingerprint, f"{source.section}.fingerprint"))
        return [FileState(undivided(source.function), UNKNOWN, mark)]

    def columns(self) -> list[str]:
        """The columns of the first rows, then the others that the config names."""
        wanted = self.options.columns or ()
        return [*self._head, *(name for name in wanted if name not in self._head)]

    def parts(self, parallel_map: ParallelMap) -> list[YieldedRows]:
        """All rows, which one process reads."""
        return [YieldedRows(self.function)]

    def head(self) -> Head:
        rows = sum(map(number_of_rows, self._items(YieldedRows(self.function, HEAD_ROWS + 1))))
        return Head(self, YieldedRows(self.function, HEAD_ROWS), whole=rows <= HEAD_ROWS, settled=True)

    def scan_rows(
        self, part: YieldedRows, declared: Mapping[str, Kind], on_batch: Callable[[pa.RecordBatch], None]
    ) -> ScanResult:
        """`on_batch` receives the columns of each batch as they were read.

        Raises DataError for a column with numbers in some rows and texts in others.
        """
        skips, kinds, objects, rows, size = Skips(), dict[str, Kind](), set[str](), 0, 0
        for batch in self._batches(part, declared):
            own = {name: declared.get(name) or self._kind(name, column) for name, column in batch.columns.items()}
            for name, kind in own.items():
                self._check_kind(name, kind, kinds.get(name, kind), batch)
            kinds |= {name: widest([kind, kinds.get(name, kind)]) for name, kind in own.items()}
            objects |= batch.objects
            converted = self._converted(batch, own, skips)
            rows, size = rows + converted.num_rows, size + converted.nbytes
            if converted.num_rows:
                on_batch(converted)
        self._check_objects(kinds, objects)
        return ScanResult({part.path: rows}, size, _without_objects(kinds, objects), skips.skipped)

    def batches(self, part: YieldedRows, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """The rows in their order."""
        for batch in self._batches(part, kinds):
            missing = pa.nulls(batch.rows)
            columns = {name: batch.columns.get(name, missing) for name in kinds}
            yield from slice_batch(
                self._converted(RowBatch(batch.first, batch.rows, columns), kinds, Skips(reported=0))
            )

    @cached_property
    def _head(self) -> dict[str, Kind]:
        """The columns of the first rows, as far as they can be read."""
        kinds, objects = dict[str, Kind](), set[str]()
        for batch in self._batches(YieldedRows(self.function, NAMED_ROWS), {}, strict=False):
            objects |= batch.objects
            kinds |= {
                name: widest([_stored_kind(column), kinds.get(name, "missing")])
                for name, column in batch.columns.items()
            }
        return _without_objects(kinds, objects)

    def _batches(self, part: YieldedRows, declared: Mapping[str, Kind], *, strict: bool = True) -> Iterator[RowBatch]:
        """The rows, with the columns that are read."""
        known = declared if strict else _AnyText()
        wanted = None if self.options.columns is None else frozenset(self.options.columns)
        keys = None if wanted is None else wanted | parents_of(wanted)
        for batch in batches_of(self._items(part), known, self.function, keys):
            columns = {name: column for name, column in batch.columns.items() if wanted is None or name in wanted}
            yield RowBatch(batch.first, batch.rows, columns, batch.objects)

    def _items(self, part: YieldedRows) -> Iterator[Any]:
        """What the function yields. Raises DataError if it fails, with the line of the user's file."""
        from headrace.trainer.hooks import iterate

        try:
            with closing(iterate(self.function, f"{self.source.section}.function")) as items:
                rows = 0
                while part.rows is None or rows < part.rows:
                    if (item := next(items, _END)) is _END:
                        break
                    rows += number_of_rows(item)
                    yield item
        except TrainingError as error:
            raise DataError(str(error)) from error

    def _converted(self, batch: RowBatch, kinds: Mapping[str, Kind], skips: Skips) -> pa.RecordBatch:
        """The rows as columns of these kinds. Bad rows are added to the skips, or raised."""
        if not batch.columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.rows, pa.struct([])))
        own = {name: kinds[name] for name in batch.columns}
        converted, bad = convert_columns(batch.columns, own, self.function)
        for make_error in row_errors(bad, self.function, lambda row: f"row {batch.first + row:,} (counted from 0)"):
            if not self.options.skip_bad:
                raise make_error()
            skips.add(make_error)
        return converted

    def _kind(self, name: str, column: pa.Array) -> Kind:
        kind = kind_in_file(self.function, name, column.type, wide=False)
        return text_kind(kind) if is_uint64(column.type) and beyond_int64(column) else kind

    def _check_kind(self, name: str, kind: Kind, before: Kind, batch: RowBatch) -> None:
        """Raise DataError for a column with numbers in some batches and something else in others."""
        numbers = {one.removesuffix(LIST) in {"int", "float"} for one in (kind, before) if one != "missing"}
        if len(numbers) > 1:
            where = f"is {before} before row {batch.first:,}, and {kind} in or after it"
            raise DataError(where, file=self.function, column=name, hint="Set `data.types.{column}: string` for both")

    def _check_objects(self, kinds: Mapping[str, Kind], objects: Collection[str]) -> None:
        for name in sorted(objects):
            if kinds.get(name, "missing") != "missing":
                what = "is a dictionary in some rows, and a value in others"
                raise DataError(what, file=self.function, column=name, hint="Yield one of the two")


class _AnyText(dict[str, Kind]):
    """Declares every column, so that one with values of several types is not a mistake yet."""

    def get(self, _name: str, _default: Any = None) -> Kind:
        return "string"


def _stored_kind(column: pa.Array) -> Kind:
    try:
        return stored_kind(column.type, wide=False)
    except ConversionError:
        return "missing"


def _without_objects(kinds: Mapping[str, Kind], objects: Collection[str]) -> dict[str, Kind]:
    """The kinds without columns that are None where others are dictionaries."""
    return {name: kind for name, kind in kinds.items() if kind != "missing" or name not in objects}


def _call(function: str, setting: str) -> Any:
    from headrace.trainer.hooks import resolve

    try:
        return resolve(function, setting)()
    except TrainingError as error:
        raise DataError(str(error)) from error
