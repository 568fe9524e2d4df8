"""Columns of float64 in examples, whose floating-point numbers are float32.

    with_bits(batch, ["ts"])       adds the column `ts:float64`, the bits of each value of `ts` as int64
    without_bits(batch, ["ts"])    the reverse

The column itself stays, rounded to float32 when it is encoded, so that statistics, slices and gates see the values that
people know. The bits are exact: a reader who has both takes the bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.common.errors import DataError
from headrace.components.examples.arrow_columns import is_list, numbers_of, valid_of
from headrace.configs.schema.data import bits_column


def check_names(columns: Iterable[str], names: Collection[str]) -> None:
    """Raise DataError if a column of the data has the name of the bits of another."""
    for column in columns:
        if bits_column(column) in names:
            what = f"the data has this column, and `data.types.{column}: float64` would write one of the same name"
            raise DataError(what, column=bits_column(column), hint="Leave it out by `data.columns`, or rename it")


def with_bits(batch: pa.RecordBatch, columns: Iterable[str]) -> pa.RecordBatch:
    """The batch with the bits of those of the columns that it has, which hold numbers or lists of them."""
    for name in columns:
        place = batch.schema.get_field_index(name)
        if place >= 0:
            batch = batch.append_column(bits_column(name), _bits(batch.column(place)))
    return batch


def without_bits(batch: pa.RecordBatch, columns: Iterable[str]) -> pa.RecordBatch:
    """The batch with the float64 values of those of the columns that have bits. All are lists of at most one value."""
    for name in columns:
        place, bits = batch.schema.get_field_index(name), batch.schema.get_field_index(bits_column(name))
        if place < 0 or bits < 0:
            continue
        values = _with_values(batch.column(place), batch.column(bits))
        batch = batch.set_column(place, name, values).drop_columns([bits_column(name)])
    return batch


def _bits(column: pa.Array) -> pa.Array:
    """int64, null where there is no number; lists for lists."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.int64())
    if is_list(column.type):
        lists = pa.ListArray if pa.types.is_list(column.type) else pa.LargeListArray
        lengths = np.asarray(column.value_lengths().fill_null(0))
        offsets = pa.array(np.append(0, np.cumsum(lengths)), column.offsets.type)
        mask = column.is_null() if column.null_count else None
        return lists.from_arrays(offsets, _bits(column.flatten()).fill_null(_LEAST), mask=mask)
    numbers = np.ascontiguousarray(numbers_of(column), np.float64)
    valid, missing = valid_of(column), np.isnan(numbers)
    return pa.array(numbers.view(np.int64), mask=missing if valid is None else missing | ~valid)


_LEAST = int(np.iinfo(np.int64).min)
"""Missing. As bits it would be -0.0, which float32 holds."""


def _with_values(column: pa.Array, bits: pa.Array) -> pa.Array:
    """float64 lists: the values of the bits, or of the column where a row has no bits; null where there are none."""
    given, exact = _first(column, np.float64(np.nan)), _first(bits, np.int64(_LEAST))
    values = np.where(exact == _LEAST, given, exact.view(np.float64))
    present = np.asarray(column.is_valid()) & ~np.isnan(values)
    offsets = pa.array(np.append(0, np.cumsum(present)).astype(np.int64))
    return pa.LargeListArray.from_arrays(offsets, pa.array(values[present]), mask=pa.array(~present))


def _first(lists: pa.Array, missing: np.generic) -> NDArray[np.generic]:
    """The value of each row: [rows]."""
    if pa.types.is_null(lists.type):
        return np.full(len(lists), missing)
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    found = np.full(len(lists), missing)
    values = np.asarray(lists.flatten())
    found[lengths > 0] = values[(np.cumsum(lengths) - lengths)[lengths > 0]]
    return found
