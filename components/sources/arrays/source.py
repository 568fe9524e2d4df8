"""Arrays as a source: a table in memory, from a function of the user's or from a .npz file."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from headrace.common.errors import DataError, TrainingError
from headrace.common.storage.files import FileState, open_file, resolve
from headrace.components.examples.parts import LARGEST_PART, MOST_PARTS
from headrace.components.examples.skips import Skipped, Skips
from headrace.components.sources.arrays.tables import as_table, digest, read_arrays
from headrace.components.sources.base import (
    HEAD_BYTES,
    HEAD_ROWS,
    Head,
    ParallelMap,
    ReadOptions,
    ScanResult,
    common_types,
    undivided,
)
from headrace.components.sources.conversion import BadRows, batch_rows, convert_columns, row_errors, slice_batch
from headrace.components.sources.stored_types import beyond_int64, is_uint64, kind_in_file, text_kind
from headrace.components.sources.types import Kind
from headrace.configs.schema.sources import ArraysSource

SMALLEST_PART = 1 << 26
"""Bytes of values."""

Part = tuple[int, int]
"""The number of the first row and of the one after the last."""

_cached: dict[str, pa.Table] = {}
"""The last table, by `function@digest` or path. A source that is unpickled in this process, or opened again in the same
run, must not call the user's function again.
"""


@dataclass(frozen=True)
class Arrays:
    """A table in memory. `location`: `function@digest`, with the digest of the table, or the path of the file.
    section: that of the config, for messages.
    """

    location: str
    from_function: bool
    options: ReadOptions = field(default_factory=ReadOptions)
    section: str = "data.source"

    @classmethod
    def open(cls, source: ArraysSource, files: Sequence[str] | None, options: ReadOptions) -> Arrays:
        """Read the file or call the function, unless that was done before."""
        if files is None:
            files = [state.path for state in cls.state(source) or []] or cls.find(source)
        return cls(files[0], source.function is not None, options, source.section)

    @classmethod
    def state(cls, source: ArraysSource) -> list[FileState] | None:
        """The state of what the function returns now; None for a file."""
        function = undivided(source.function)
        if function is None:
            return None
        table = _call(function, source.section)
        mark = digest(table)
        _cache(f"{function}@{mark}", table)
        return [FileState(f"{function}@{mark}", table.nbytes, mark)]

    @classmethod
    def find(cls, source: ArraysSource) -> list[str]:
        """The path of the file."""
        found = resolve(source.path or ())
        if len(found) > 1:
            raise DataError(f"`{source.section}.path` must name one .npz file; {source.path!r} matches {len(found)}")
        return found

    def columns(self) -> list[str]:
        """The names of the table's columns."""
        return self.options.select(self._table().schema.names)

    def parts(self, parallel_map: ParallelMap) -> list[Part]:
        """Ranges of rows."""
        table = self._table()
        length = min(max(table.nbytes // MOST_PARTS, SMALLEST_PART), LARGEST_PART)
        step = max(1, length * table.num_rows // max(table.nbytes, 1))
        return [(start, min(start + step, table.num_rows)) for start in range(0, table.num_rows, step)] or [(0, 0)]

    def head(self) -> Head:
        """The first rows; of a longer table, without columns of uint64 whose later values make them another kind."""
        table = self._table()
        rows = min(table.num_rows, HEAD_ROWS, max(1, HEAD_BYTES * table.num_rows // max(table.nbytes, 1)))
        names = tuple(name for name in self.columns() if self._is_settled(table[name], rows))
        whole = rows == table.num_rows
        source = self if whole else replace(self, options=replace(self.options, columns=names))
        return Head(source, (0, rows), whole=whole, settled=True)

    def _is_settled(self, column: pa.ChunkedArray, rows: int) -> bool:
        """Whether the first rows decide the kind of a column."""
        return not is_uint64(column.type) or self._kind("", column) == self._kind("", column.slice(0, rows))

    def scan(self, part: Part, declared: Mapping[str, Kind]) -> ScanResult:
        """Use the stored types; read values only of uint64 columns, and to find rows to skip."""
        rows = self._table().slice(part[0], part[1] - part[0])
        kinds = {name: self._kind(name, rows[name]) for name in self.columns()}
        skipped = self._skipped(part, {**kinds, **declared}) if self.options.skip_bad else Skipped()
        size = sum(rows[name].nbytes for name in kinds)
        return ScanResult({self._name: rows.num_rows - skipped.count}, size, kinds, skipped)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Slices of the table."""
        for start, batch, bad in self._read(part, kinds):
            if bad and not self.options.skip_bad:
                raise next(self._errors(bad, start))()
            yield from slice_batch(batch)

    def stored_types(self, kinds: Mapping[str, Kind]) -> dict[str, pa.DataType]:
        return common_types([{field.name: field.type for field in self._table().schema}], kinds)

    @property
    def _name(self) -> str:
        return self.location.rpartition("@")[0] if self.from_function else self.location

    def _table(self) -> pa.Table:
        if self.location not in _cached:
            table = _call(self._name, self.section) if self.from_function else _read_npz(self.location)
            if self.from_function and f"{self._name}@{digest(table)}" != self.location:
                raise DataError(
                    "the function returned other data than at the start of the run",
                    file=self._name,
                    hint="Make it return the same data on each call, or write the data to a file first",
                )
            _cache(self.location, table)
        return _cached[self.location]

    def _kind(self, name: str, column: pa.ChunkedArray) -> Kind:
        kind = kind_in_file(self._name, name, column.type, wide=False)
        wide = is_uint64(column.type) and any(beyond_int64(chunk) for chunk in column.chunks)
        return text_kind(kind) if wide else kind

    def _skipped(self, part: Part, kinds: Mapping[str, Kind]) -> Skipped:
        skips = Skips()
        for start, _, bad in self._read(part, kinds):
            for error in self._errors(bad, start):
                skips.add(error)
        return skips.skipped

    def _errors(self, bad: BadRows, start: int) -> Iterator[Callable[[], DataError]]:
        return row_errors(bad, self._name, lambda row: f"row {start + row} (counted from 0)")

    def _read(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[tuple[int, pa.RecordBatch, BadRows]]:
        """Yield the number of the first row of each batch, the batch, and its bad rows."""
        table = self._table().select(list(kinds))
        step = batch_rows(table.nbytes, table.num_rows, table.num_columns)
        for start in range(part[0], part[1], step):
            rows = table.slice(start, min(step, part[1] - start))
            columns = {name: rows[name].combine_chunks() for name in kinds}
            yield start, *convert_columns(columns, kinds, self._name)


def _cache(location: str, table: pa.Table) -> None:
    _cached.clear()
    _cached[location] = table


def _call(function: str, section: str) -> pa.Table:
    from headrace.trainer.hooks import resolve as import_function

    try:
        return as_table(import_function(function, f"{section}.function")())
    except TrainingError as error:
        raise DataError(str(error)) from error
    except DataError as error:
        raise DataError(error.what, file=function, column=error.column, hint=error.hint) from None


def _read_npz(path: str) -> pa.Table:
    try:
        with open_file(path) as stream:
            if stream.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                raise DataError("contains one array without a name", hint="Write it with `numpy.savez`")
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            return as_table(read_arrays(stream, size))
    except DataError as error:
        raise DataError(error.what, file=path, column=error.column, hint=error.hint) from None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, OSError) as error:
        raise DataError(f"is not a .npz file, or a damaged one: {error}", file=path) from None
