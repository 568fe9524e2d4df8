"""Columns of byte strings, concatenated row by row.

    concatenate([DictionaryColumn.of([b"a", b"b"], which), FixedColumn((FixedField(b"=", digits),))], rows)
        ->  pa.BinaryArray

A row of a tf.Example is the concatenation of its columns' bytes. All bytes that occur in any column go into one pool,
and a single Arrow `take` copies them out in the order of the rows, so that nothing is called for each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import binary_array, bytes_of, offsets_of
from headrace.components.examples.tfexample import crc32c

ROWS_PER_VALUE = 8
"""Two adjacent dictionary columns are merged if each pair of their values has this many rows on average."""

Index: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Dictionary:
    """A few byte strings.

    Attributes:
        values: the strings.
        product: the two dictionaries whose values were concatenated, each with each, to make this one.
    """

    values: pa.BinaryArray
    product: tuple[Dictionary, Dictionary] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def sizes(self) -> Index:
        """The size of each string in bytes."""
        return np.diff(offsets_of(self.values))

    @cached_property
    def size(self) -> int | None:
        """The size that all strings have in common, if there is one."""
        return int(self.sizes[0]) if (self.sizes == self.sizes[0]).all() else None

    @cached_property
    def checksums(self) -> crc32c.States:
        """The contribution of each string to a checksum."""
        if self.product is None:
            return crc32c.of_strings(self.values.to_numpy(zero_copy_only=False).tolist())
        left, right = self.product
        every = np.tile(np.arange(len(right)), len(left))
        advanced = crc32c.advanced_by(np.repeat(left.checksums, len(right)), right.sizes, every)
        return advanced ^ right.checksums[every]


@dataclass(frozen=True)
class DictionaryColumn:
    """One of a few byte strings in each row: dictionary.values[which]."""

    dictionary: Dictionary
    which: Index

    @classmethod
    def of(cls, values: Sequence[bytes], which: NDArray[np.integer]) -> DictionaryColumn:
        """A column from Python bytes."""
        return cls(Dictionary(pa.array(values, pa.binary())), which.astype(np.int32, copy=False))

    @classmethod
    def constant(cls, value: bytes, rows: int) -> DictionaryColumn:
        """The same bytes in every row."""
        return cls.of([value], np.zeros(rows, np.int32))

    @property
    def values(self) -> pa.BinaryArray:
        return self.dictionary.values

    @property
    def sizes(self) -> Index:
        """The sizes of the distinct values."""
        return self.dictionary.sizes

    @property
    def lengths(self) -> NDArray[np.integer] | int:
        """The size of each row's value; an int if all are the same."""
        return self.dictionary.size if self.dictionary.size is not None else self.sizes.take(self.which)

    def without_unused(self) -> DictionaryColumn:
        """The same bytes, with at most as many values as rows: all values are copied whenever rows are concatenated."""
        if len(self.dictionary) <= len(self.which):
            return self
        used = np.flatnonzero(np.bincount(self.which, minlength=len(self.dictionary)))
        places = np.empty(len(self.dictionary), np.int32)
        places[used] = np.arange(len(used), dtype=np.int32)
        return DictionaryColumn(Dictionary(self.values.take(pa.array(used))), places.take(self.which))

    def with_next(self, other: DictionaryColumn) -> DictionaryColumn | None:
        """Both columns as one, if that has few values as well."""
        count, more = len(self.dictionary), len(other.dictionary)
        if count * more > max(count, more, len(self.which) // ROWS_PER_VALUE):
            return None
        which = self.which if more == 1 else other.which if count == 1 else self.which * np.int32(more) + other.which
        return DictionaryColumn(_product(self.dictionary, other.dictionary), which)


@lru_cache(maxsize=64)
def _product(left: Dictionary, right: Dictionary) -> Dictionary:
    first = left.values.take(pa.array(np.repeat(np.arange(len(left)), len(right))))
    second = right.values.take(pa.array(np.tile(np.arange(len(right)), len(left))))
    return Dictionary(pc.binary_join_element_wise(first, second, b""), (left, right))


@dataclass(frozen=True)
class FixedField:
    """The same bytes in each row, followed by bytes of the row's own: uint8 [rows, width]."""

    before: bytes
    own: NDArray[np.uint8]

    @property
    def width(self) -> int:
        """Bytes in a row."""
        return len(self.before) + self.own.shape[1]


@dataclass(frozen=True)
class FixedColumn:
    """The same number of bytes in each row, except for rows that are not `valid`: they have the bytes `missing`."""

    fields: tuple[FixedField, ...]
    valid: Mask | None = None
    missing: bytes = b""

    @property
    def width(self) -> int:
        """Bytes in a valid row."""
        return sum(field.width for field in self.fields)

    @property
    def lengths(self) -> NDArray[np.integer] | int:
        """The size of each row's value; an int if all are the same."""
        return self.width if self.valid is None else np.where(self.valid, self.width, len(self.missing))

    def with_next(self, other: FixedColumn) -> FixedColumn | None:
        """Both columns as one, if no row of either is missing."""
        return FixedColumn((*self.fields, *other.fields)) if self.valid is None is other.valid else None

    def write(self, rows: NDArray[np.uint8]) -> None:
        """Fill uint8 [rows, width]."""
        empty = b"".join(field.before + bytes(field.own.shape[1]) for field in self.fields)
        rows[:] = np.frombuffer(empty, np.uint8)
        end = 0
        for field in self.fields:
            end += field.width
            _copy(rows[:, end - field.own.shape[1] : end], field.own)


@dataclass(frozen=True)
class VariableColumn:
    """Arbitrary bytes in each row."""

    values: pa.BinaryArray

    @property
    def sizes(self) -> Index:
        """The size of each value."""
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
        """The size of each value."""
        return np.diff(offsets_of(self.values))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The total size of each row's values."""
        return self.sizes.take(self.which).sum(axis=1, dtype=np.int64)


SingleColumn: TypeAlias = DictionaryColumn | FixedColumn | VariableColumn
ByteColumn: TypeAlias = SingleColumn | StackedColumns


def merged(columns: Iterable[ByteColumn]) -> list[ByteColumn]:
    """The columns with neighbors merged where that makes fewer columns of the same bytes."""
    out: list[ByteColumn] = []
    for column in columns:
        both = _both(out[-1], column) if out else None
        if both is None:
            out.append(column)
        else:
            out[-1] = both
    return out


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


def _both(left: ByteColumn, right: ByteColumn) -> ByteColumn | None:
    if isinstance(left, DictionaryColumn) and isinstance(right, DictionaryColumn):
        return left.with_next(right)
    if isinstance(left, FixedColumn) and isinstance(right, FixedColumn):
        return left.with_next(right)
    return None


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
