"""The slice of each row of a batch, by the raw data columns.

(TFMA itself looks a slice's column up among the transformed features first, where a number is a z-score.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SliceValue = str | int | float | None
SliceKey = tuple[tuple[str, SliceValue], ...]
"""(column, value) pairs sorted by column, as in TFMA. A missing value is None; () is the whole split."""
MetricValues = dict[tuple[str, SliceKey], dict[str, float]]
"""Metrics and the example count of each (model's name, slice); NaN where a metric has no value."""
MISSING = "(missing)"
"""The name of a missing value, for people and for TFMA."""
_LEAST_INT64 = -(1 << 63)


@dataclass(frozen=True)
class SliceAssignment:
    """The slices that a list of columns makes of a batch. groups: the index in `keys` of each row, int64 [rows]."""

    keys: Sequence[SliceKey]
    groups: NDArray[np.int64]


def assign_slices(batch: pa.RecordBatch, columns: Sequence[str]) -> SliceAssignment:
    """Group rows by the combination of their values in the columns. Without columns, all rows are in the slice ().

    Every row is in a slice. A missing value (absent, an empty list or string, NaN, or the least int64, as for features)
    is a value of its own.
    """
    keys: list[SliceKey] = [()]
    groups = np.zeros(batch.num_rows, np.int64)
    for column in sorted(columns):
        values, index = _first_values(batch, column)
        # a combination of the columns so far and this one, as one integer
        present, groups = np.unique(groups * len(values) + index, return_inverse=True)
        pairs = [divmod(int(pair), len(values)) for pair in present]
        keys = [(*keys[before], (column, values[value])) for before, value in pairs]
    return SliceAssignment(keys, groups)


def name_missing(keys: Iterable[SliceKey]) -> dict[SliceKey, tuple[tuple[str, str | int | float], ...]]:
    """Each key with MISSING in place of None, in more parentheses where a column contains that text as a value."""
    keys = list(keys)
    present = {pair for key in keys for pair in key}
    names: dict[str, str] = {}
    for column, value in present:
        if value is None:
            name = MISSING
            while (column, name) in present:
                name = f"({name})"
            names[column] = name
    return {key: tuple((column, names[column] if value is None else value) for column, value in key) for key in keys}


def _first_values(batch: pa.RecordBatch, column: str) -> tuple[list[SliceValue], NDArray[np.int64]]:
    """The distinct first values of a column of lists, with None first, and the index of each row's value in them."""
    position = batch.schema.get_field_index(column)
    if position < 0 or pa.types.is_null(batch.schema.types[position]):
        return [None], np.zeros(batch.num_rows, np.int64)
    lists = batch.column(position)
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    encoded = lists.flatten().dictionary_encode()
    numbers: dict[SliceValue, int] = {None: 0}
    # Values that differ in Arrow may be the same here: the ways to be missing, or 0.0 and -0.0.
    number_of = np.array(
        [numbers.setdefault(_slice_value(each), len(numbers)) for each in encoded.dictionary.to_pylist()], int
    )
    index = np.zeros(batch.num_rows, np.int64)
    index[lengths > 0] = number_of[np.asarray(encoded.indices)[(np.cumsum(lengths) - lengths)[lengths > 0]]]
    return list(numbers), index


def _slice_value(value: bytes | int | float) -> SliceValue:
    """A value as in a slice's key. Bytes that are not UTF-8 become escapes, so that different ones stay different."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace") or None
    if isinstance(value, int):
        return None if value == _LEAST_INT64 else value
    return None if math.isnan(value) else value + 0.0  # -0.0 becomes 0.0
