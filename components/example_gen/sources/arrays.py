"""NumPy arrays and pandas objects: from a function of the user's, or from a .npz file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.components.example_gen.columnar.fit import cut, fit, rows_in_batch
from headrace.components.example_gen.columnar.npz import read_arrays
from headrace.components.example_gen.columnar.stored import (
    UnfitError,
    as_text_kind,
    beyond_int64,
    is_uint64,
    stored_kind,
)
from headrace.components.example_gen.columnar.tables import as_table, digest
from headrace.components.example_gen.parts import LARGEST_PART, MOST_PARTS
from headrace.components.example_gen.sources.base import TOLD, Reading, Skipped, Spread, Survey
from headrace.components.example_gen.storage import FileState, open_file, resolve
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError, TrainingError
from headrace.configs.sources import ArraysSource

SMALLEST_PART = 1 << 26
"""Bytes of values."""

Part = tuple[int, int]
"""The first row, and the one after the last."""

_seen: dict[str, pa.Table] = {}
"""The table that was made last, by `function@digest` or path. A source that crosses to a worker in this process, or is
opened anew in the same run, must not call the user's function again."""


@dataclass(frozen=True)
class Arrays:
    """A table in memory. `place`: the function and the digest of what it gave, or the path of the file."""

    place: str
    from_function: bool
    reading: Reading = field(default_factory=Reading)

    @classmethod
    def open(cls, source: ArraysSource, files: Sequence[str] | None, reading: Reading) -> Arrays:
        """Read the file or call the function, unless that was done before."""
        if files is None:
            files = [own.path for own in cls.state(source) or []] or cls.find(source)
        return cls(files[0], source.function is not None, reading)

    @classmethod
    def state(cls, source: ArraysSource) -> list[FileState] | None:
        """What the function gives now; None for a file."""
        if source.function is None:
            return None
        table = _call(source.function)
        mark = digest(table)
        _keep(f"{source.function}@{mark}", table)
        return [FileState(f"{source.function}@{mark}", table.nbytes, mark)]

    @classmethod
    def find(cls, source: ArraysSource) -> list[str]:
        """The path of the file."""
        found = resolve(source.path or ())
        if len(found) > 1:
            raise DataError(f"{source.path!r} means {len(found)} files; `data.source.path` is one .npz file")
        return found

    def columns(self) -> list[str]:
        """The names in the table."""
        return self.reading.chosen(self._table().schema.names)

    def parts(self, spread: Spread) -> list[Part]:  # noqa: ARG002 - nothing to spread
        """Ranges of rows."""
        table = self._table()
        length = min(max(table.nbytes // MOST_PARTS, SMALLEST_PART), LARGEST_PART)
        step = max(1, length * table.num_rows // max(table.nbytes, 1))
        return [(start, min(start + step, table.num_rows)) for start in range(0, table.num_rows, step)] or [(0, 0)]

    def survey(self, part: Part, declared: Mapping[str, Kind]) -> Survey:
        """The kinds of the stored types; values are looked at only for uint64, and for rows to leave out."""
        rows = self._table().slice(part[0], part[1] - part[0])
        kinds = {name: self._kind(name, rows[name]) for name in self.columns()}
        skipped = self._skipped(part, {**kinds, **declared}) if self.reading.skip_bad else Skipped()
        size = sum(rows[name].nbytes for name in kinds)
        return Survey({self._name: rows.num_rows - skipped.count}, size, kinds, skipped)

    def batches(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[pa.RecordBatch]:
        """Slices of the table."""
        for start, batch, bad in self._read(part, kinds):
            if bad and not self.reading.skip_bad:
                row, (name, what) = next(iter(bad.items()))
                raise DataError(f"row {start + row} (counted from 0) {what}", file=self._name, column=name)
            yield from cut(batch)

    @property
    def _name(self) -> str:
        return self.place.rpartition("@")[0] if self.from_function else self.place

    def _table(self) -> pa.Table:
        if self.place not in _seen:
            table = _call(self._name) if self.from_function else _npz(self.place)
            if self.from_function and f"{self._name}@{digest(table)}" != self.place:
                raise DataError(
                    "the function gave other data than at the start of the run",
                    file=self._name,
                    hint="Let it give the same each time it is called, or write what it gives to a file first",
                )
            _keep(self.place, table)
        return _seen[self.place]

    def _kind(self, name: str, column: pa.ChunkedArray) -> Kind:
        try:
            kind = stored_kind(column.type, wide=False)
        except UnfitError as error:
            raise DataError(
                str(error), file=self._name, column=name, hint="`data.columns` can list the others"
            ) from None
        wide = is_uint64(column.type) and any(beyond_int64(chunk) for chunk in column.chunks)
        return as_text_kind(kind) if wide else kind

    def _skipped(self, part: Part, kinds: Mapping[str, Kind]) -> Skipped:
        count, told = 0, list[str]()
        for start, _, bad in self._read(part, kinds):
            count += len(bad)
            told += [
                str(DataError(f"row {start + row} (counted from 0) {what}", file=self._name, column=name))
                for row, (name, what) in list(bad.items())[: TOLD - len(told)]
            ]
        return Skipped(count, tuple(told))

    def _read(self, part: Part, kinds: Mapping[str, Kind]) -> Iterator[tuple[int, pa.RecordBatch, Any]]:
        """Batches with their first row, and their rows that did not fit."""
        table = self._table().select(list(kinds))
        step = rows_in_batch(table.nbytes, table.num_rows, table.num_columns)
        for start in range(part[0], part[1], step):
            rows = table.slice(start, min(step, part[1] - start))
            columns = {name: rows[name].combine_chunks() for name in kinds}
            yield start, *fit(columns, kinds, self._name)


def _keep(place: str, table: pa.Table) -> None:
    _seen.clear()
    _seen[place] = table


def _call(function: str) -> pa.Table:
    from headrace.trainer.hooks import resolve as function_at

    try:
        return as_table(function_at(function, "data.source.function")())
    except TrainingError as error:
        raise DataError(str(error)) from error
    except DataError as error:
        raise DataError(error.what, file=function, column=error.column, hint=error.hint) from None


def _npz(path: str) -> pa.Table:
    import zipfile
    import zlib

    import numpy as np

    try:
        with open_file(path) as stream:
            if stream.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                raise DataError("holds one array without a name", hint="Write it with `numpy.savez`")
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            return as_table(read_arrays(stream, size))
    except DataError as error:
        raise DataError(error.what, file=path, column=error.column, hint=error.hint) from None
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error, OSError) as error:
        raise DataError(f"is no .npz file, or a damaged one: {error}", file=path) from None
