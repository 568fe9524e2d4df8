"""Columns of byte strings, concatenated row by row.

    concatenate([DictionaryColumn.of([b"a", b"b"], which), FixedColumn(b"=", digits)], rows)  ->  pa.BinaryArray

A row of a tf.Example is the concatenation of its columns' bytes. All bytes that occur in any column go into one pool,
and a single Arrow `take` copies them out in the order of the rows, so that nothing is called for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import binary_array, bytes_of, offsets_of

Index: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class DictionaryColumn:
    """One of a few byte strings in each row: values[which]."""

    values: pa.BinaryArray
    which: Index

    @classmethod
    def of(cls, values: Sequence[bytes], which: NDArray[np.integer]) -> DictionaryColumn:
        """A column from Python bytes."""
        return cls(pa.array(values, pa.binary()), which.astype(np.int32, copy=False))

    @classmethod
    def constant(cls, value: bytes, rows: int) -> DictionaryColumn:
        """The same bytes in every row."""
        return cls.of([value], np.zeros(rows, np.int32))

    @cached_property
    def sizes(self) -> Index:
        """The sizes of the distinct values."""
        return np.diff(offsets_of(self.values))

    @property
    def lengths(self) -> NDArray[np.integer]:
        """The size of each row's value."""
        return self.sizes.take(self.which)

    def without_unused(self) -> DictionaryColumn:
        """The same bytes, with at most as many values as rows: all values are copied whenever rows are concatenated."""
        if len(self.values) <= len(self.which):
            return self
        used = np.flatnonzero(np.bincount(self.which, minlength=len(self.values)))
        places = np.empty(len(self.values), np.int32)
        places[used] = np.arange(len(used), dtype=np.int32)
        return DictionaryColumn(self.values.take(pa.array(used)), places.take(self.which))


@dataclass(frozen=True)
class FixedColumn:
    """The bytes `before` in each row, followed by as many bytes of its own, uint8 [rows, bytes].

    Rows that are not `valid` have the bytes `missing` instead.
    """

    before: bytes
    own: NDArray[np.uint8]
    valid: Mask | None = None
    missing: bytes = b""

    @property
    def width(self) -> int:
        """Bytes in a valid row."""
        return len(self.before) + self.own.shape[1]

    @property
    def lengths(self) -> NDArray[np.integer] | int:
        """The size of each row's value; an int if all are the same."""
        return self.width if self.valid is None else np.where(self.valid, self.width, len(self.missing))

    def write(self, rows: NDArray[np.uint8]) -> None:
        """Fill uint8 [rows, width]."""
        start = len(self.before)
        rows[:, :start] = np.frombuffer(self.before, np.uint8)
        _copy(rows[:, start:], self.own)


@dataclass(frozen=True)
class VariableColumn:
    """Arbitrary bytes in each row."""

    values: pa.BinaryArray

    @property
    def sizes(self) -> Index:
        return np.diff(offsets_of(self.values))

    @property
    def lengths(self) -> NDArray[np.integer] | int:
        """The size of each row's value."""
        return self.sizes


@dataclass(frozen=True)
class StackedColumns:
    """Some of the values, one after the other, in each row. which: int32 [rows, values in a row]."""

    values: pa.BinaryArray
    which: Index

    @cached_property
    def sizes(self) -> Index:
        return np.diff(offsets_of(self.values))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The total size of each row's values."""
        return self.sizes.take(self.which).sum(axis=1, dtype=np.int64)


ByteColumn: TypeAlias = DictionaryColumn | FixedColumn | VariableColumn | StackedColumns


def concatenate(columns: Sequence[ByteColumn], rows: int) -> pa.BinaryArray:
    """The columns' bytes, one after the other, row by row. Takes at least one column and one row."""
    sizes = [_pool_sizes(column, rows) for column in columns]
    ends = np.cumsum([own.sum() for own in sizes])
    data = np.frombuffer(pa.allocate_buffer(int(ends[-1])), np.uint8)
    edges = np.cumsum([0, *map(_values_per_row, columns)])
    which = np.empty((rows, edges[-1]), np.int32)
    first, start, every = 0, 0, np.arange(rows, dtype=np.int32)
    for number, (column, own, end) in enumerate(zip(columns, sizes, ends.tolist(), strict=True)):
        _write_pool(column, data[start:end], rows)
        indices = _pool_indices(column, every) + np.int32(first)
        which[:, edges[number] : edges[number + 1]] = indices.reshape(rows, -1)
        first, start = first + len(own), end
    pool = binary_array(data, np.concatenate(sizes))
    taken = pc.take(pool, pa.array(which.reshape(-1)), boundscheck=False)
    # The taken values of a row are contiguous, so keeping every n-th offset makes them one value.
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets_of(taken)[:: which.shape[1]].copy()), taken.buffers()[2]]
    )


def _values_per_row(column: ByteColumn) -> int:
    return column.which.shape[1] if isinstance(column, StackedColumns) else 1


def _pool_sizes(column: ByteColumn, rows: int) -> NDArray[np.integer]:
    if not isinstance(column, FixedColumn):
        return column.sizes
    sizes = np.full(rows + (column.valid is not None), column.width, np.int32)
    if column.valid is not None:
        sizes[-1] = len(column.missing)
    return sizes


def _write_pool(column: ByteColumn, data: NDArray[np.uint8], rows: int) -> None:
    if isinstance(column, FixedColumn):
        size = rows * column.width
        column.write(data[:size].reshape(rows, column.width))
        data[size:] = np.frombuffer(column.missing if column.valid is not None else b"", np.uint8)
    else:
        data[:] = bytes_of(column.values)


def _pool_indices(column: ByteColumn, every: Index) -> Index:
    """The index of each row's value in the column's part of the pool."""
    if isinstance(column, DictionaryColumn | StackedColumns):
        return column.which
    if isinstance(column, FixedColumn) and column.valid is not None:
        return np.where(column.valid, every, np.int32(len(every)))
    return every


def _copy(into: NDArray[np.uint8], own: NDArray[np.uint8]) -> None:
    width = own.shape[1]
    if width in (2, 4, 8) and own.flags.c_contiguous:  # as one number per row, which is faster than byte by byte
        into.view(f"<u{width}")[:, 0] = own.view(f"<u{width}")[:, 0]
    else:
        for place in range(width):
            into[:, place] = own[:, place]
