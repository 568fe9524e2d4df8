"""Arrow columns as NumPy arrays, without a copy and without a cost that grows with the number of columns.

    numbers_of(column)                     the buffer of a numeric column as a NumPy array
    missing_of(column)                     which rows have no value
    distinct_values(column)                the different values of a column and a code for each row
    for stack in stacks(batch): ...        all columns of one type as one array, where worth_stacking(batch)

A NumPy or Arrow call on a column of few rows costs more than the work on its values. So what is computed from a value
is computed once for each distinct value of a column that repeats, and once for all columns of a type in a wide batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.examples.parts import grouped

FEW_ROWS, MANY_COLUMNS = 1024, 32
"""Columns are stacked below this many rows and from this many columns on. Elsewhere one call per column costs less than
copying the columns into stacks."""

STACK_BYTES = 4 << 20
"""Approximate size of a stack: large enough to amortize the calls, small enough for the processor's cache."""

DISTINCT_SAMPLE, FEW_DISTINCT = 512, 128
"""A column counts as repeating if its first 512 values have at most 128 distinct ones."""

MIN_REPEATS = 4
"""Average number of occurrences of a value from which a dictionary pays."""

MAX_RANGE = 1024
"""Integers within a range of this size are coded by their distance from the smallest, which is faster than hashing."""

Value = TypeVar("Value", bound=np.generic)

_FIXED_WIDTH = frozenset(arrow.id for arrow in (pa.int64(), pa.float64(), pa.float32()))


def is_list(arrow: pa.DataType) -> bool:
    """Whether a column is multivalued: each row has any number of values."""
    return pa.types.is_list(arrow) or pa.types.is_large_list(arrow)


def plain(column: pa.Array) -> pa.Array:
    """The values of a dictionary array; any other column as it is."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same for all columns."""
    return pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], batch.schema.names)


def codes_of(column: pa.DictionaryArray) -> NDArray[np.int32]:
    """The code of each row's value: int32 [rows]; the number of values where it is missing."""
    codes, valid = numbers_of(column.indices).astype(np.int32, copy=False), valid_of(column)
    return codes if valid is None else np.where(valid, codes, np.int32(len(column.dictionary)))


def numbers_of(column: pa.Array) -> NDArray[np.number]:
    """The integers or floats of a column, as a view of its buffer; arbitrary numbers where values are missing.

    Arrow's `to_numpy` would import pandas, which takes half a second.
    """
    kind = "f" if pa.types.is_floating(column.type) else "u" if pa.types.is_unsigned_integer(column.type) else "i"
    dtype = np.dtype(f"{kind}{column.type.bit_width // 8}")
    if not len(column):
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def valid_of(column: pa.Array) -> NDArray[np.bool_] | None:
    """Which values are present in a column whose type is not null; None if all are."""
    if not column.null_count:
        return None
    first, skipped = divmod(column.offset, 8)
    bits = np.frombuffer(column.buffers()[0], np.uint8)[first:]
    return np.unpackbits(bits, count=skipped + len(column), bitorder="little")[skipped:].view(bool)


def missing_of(column: pa.Array) -> NDArray[np.bool_]:
    """Which rows have no value: bool [rows]. The first value of a list counts.

    Missing are null, NaN, an empty text or list, and the smallest int64, as for features.
    """
    if pa.types.is_null(column.type):
        return np.ones(len(column), np.bool_)
    if is_list(column.type):
        lengths = np.asarray(pc.list_value_length(column).fill_null(0), np.int64)
        missing = lengths == 0
        first = (np.cumsum(lengths) - lengths)[~missing]
        missing[~missing] = missing_of(column.flatten().take(pa.array(first)))
        return missing
    if pa.types.is_floating(column.type):
        empty = np.isnan(numbers_of(column))
    elif pa.types.is_int64(column.type):
        empty = numbers_of(column) == np.iinfo(np.int64).min
    else:
        empty = np.asarray(pc.binary_length(column).fill_null(0)) == 0
    valid = valid_of(column)
    return np.asarray(empty if valid is None else empty | ~valid, np.bool_)


def binary_array(values: NDArray[np.generic], sizes: NDArray[np.integer]) -> pa.BinaryArray:
    """Contiguous bytes as values of the given sizes."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def offsets_of(values: pa.BinaryArray) -> NDArray[np.int32]:
    """The start of each value in the data buffer, and the end of the last: int32 [n + 1]."""
    if not len(values):
        return np.zeros(1, np.int32)
    return np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]


def bytes_of(values: pa.BinaryArray) -> NDArray[np.uint8]:
    """The bytes of all values, from the start of the first to the end of the last."""
    offsets = offsets_of(values)
    return np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]


@dataclass(frozen=True)
class IntegerRange:
    """All integers from `first` to `last`, followed by null if `null`."""

    first: int
    last: int
    null: bool
    arrow: pa.DataType

    @property
    def values(self) -> pa.Array:
        """The integers as a column."""
        return pa.array([*range(self.first, self.last + 1), *[None] * self.null], self.arrow)


def distinct_values(column: pa.Array) -> tuple[pa.Array | IntegerRange, NDArray[np.int32]] | None:
    """The distinct values of a column and the index of each row's value among them: int32 [rows].

    Null may be one of the values, and some values may not occur. Returns None if most values differ, and for floats: a
    dictionary would merge 0.0 and -0.0.
    """
    if (
        len(column) < MIN_REPEATS * DISTINCT_SAMPLE
        or pa.types.is_floating(column.type)
        or pa.types.is_nested(column.type)
    ):
        return None
    integers = _integer_range(column) if pa.types.is_integer(column.type) else None
    if integers is not None:
        return integers, _codes(column, integers)
    if len(column.slice(0, DISTINCT_SAMPLE).unique()) > FEW_DISTINCT:
        return None
    coded = column.dictionary_encode(null_encoding="encode")
    return None if len(coded.dictionary) * MIN_REPEATS > len(column) else (coded.dictionary, coded.indices.to_numpy())


def _integer_range(column: pa.Array) -> IntegerRange | None:
    edges = pc.min_max(column)
    first, last = edges["min"].as_py(), edges["max"].as_py()
    if first is None or last - first >= min(MAX_RANGE, len(column) // MIN_REPEATS):
        return None
    return IntegerRange(first, last, column.null_count > 0, column.type)


def _codes(column: pa.Array, integers: IntegerRange) -> NDArray[np.int32]:
    codes, valid = (numbers_of(column) - integers.first).astype(np.int32), valid_of(column)
    return codes if valid is None else np.where(valid, codes, np.int32(integers.last - integers.first + 1))


@dataclass(frozen=True)
class ColumnStack:
    """Columns of one type, one after the other.

    Attributes:
        positions: the columns' positions in the batch.
        values: all values of the first column, then all of the second, and so on.
        rows: the number of rows of each column.
    """

    positions: NDArray[np.int64]
    values: pa.Array
    rows: int

    def per_column(self, values: NDArray[Value]) -> NDArray[Value]:
        """What was computed from each value, as [columns, rows]."""
        return values.reshape(len(self.positions), self.rows)


def worth_stacking(batch: pa.RecordBatch) -> bool:
    """Whether a batch is so wide and short that stacking its columns saves time."""
    return 0 < batch.num_rows < FEW_ROWS and bool(batch.num_columns >= MANY_COLUMNS)


def stacks(batch: pa.RecordBatch) -> Iterator[ColumnStack]:
    """All columns of a batch that has rows, in stacks of about STACK_BYTES."""
    columns, by_type = batch.columns, dict[object, list[int]]()
    for place, arrow in enumerate(batch.schema.types):
        by_type.setdefault(arrow if arrow.num_fields else arrow.id, []).append(place)
    for key, positions in by_type.items():
        sizes = [8 * batch.num_rows if key in _FIXED_WIDTH else columns[place].nbytes for place in positions]
        for own in grouped(positions, sizes, STACK_BYTES):
            yield _stack([columns[place] for place in own], own)


def stacks_or_columns(batch: pa.RecordBatch) -> Iterator[ColumnStack]:
    """Stacks where stacking saves time, otherwise each column as a stack of its own."""
    if worth_stacking(batch):
        return stacks(batch)
    return (ColumnStack(np.array([place]), column, batch.num_rows) for place, column in enumerate(batch.columns))


def _stack(columns: Sequence[pa.Array], positions: Sequence[int]) -> ColumnStack:
    values = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    return ColumnStack(np.array(positions), values, len(columns[0]))
