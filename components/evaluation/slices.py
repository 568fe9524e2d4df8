"""Which slice each row of a batch belongs to, by the raw data columns.

(TFMA itself looks a slice's column up among the transformed features first, where a number is a z-score.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Value = str | int | float
SliceKey = tuple[tuple[str, Value], ...]
"""(column, value) pairs, by column, as TFMA's slice keys; () is the whole."""


@dataclass(frozen=True)
class Slicing:
    """The slices that one list of columns makes of a batch. groups: int64 [rows], an index into keys; -1 for none."""

    keys: Sequence[SliceKey]
    groups: NDArray[np.int64]


def slicing(batch: pa.RecordBatch, columns: Sequence[str]) -> Slicing:
    """Group the rows by the values of the columns together; no columns: all rows are one slice, the whole.

    A row with a missing value is in no slice of that column.
    """
    keys: list[SliceKey] = [()]
    groups = np.zeros(batch.num_rows, np.int64)
    for column in sorted(columns):
        values, index = _first_values(batch, column)
        groups = np.where((groups < 0) | (index < 0), -1, groups * len(values) + index)
        present, groups = np.unique(groups, return_inverse=True)
        groups -= int(len(present) > 0 and present[0] < 0)
        pairs = [divmod(int(pair), len(values)) for pair in present if pair >= 0]
        keys = [(*keys[before], (column, values[value])) for before, value in pairs]
    return Slicing(keys, groups)


def _first_values(batch: pa.RecordBatch, column: str) -> tuple[list[Value], NDArray[np.int64]]:
    """The distinct values of a column of lists, and for each row the place of its first value there, or -1."""
    index = np.full(batch.num_rows, -1, np.int64)
    place = batch.schema.get_field_index(column)
    if place < 0 or pa.types.is_null(batch.schema.types[place]):
        return [], index
    lists = batch.column(place)
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    encoded = lists.flatten().dictionary_encode()
    values = [_value(value) for value in encoded.dictionary.to_pylist()]
    index[lengths > 0] = np.asarray(encoded.indices)[(np.cumsum(lengths) - lengths)[lengths > 0]]
    missing = [i for i, value in enumerate(values) if value != value]  # noqa: PLR0124 - only NaN differs from itself
    index[np.isin(index, missing)] = -1
    return values, index


def _value(value: bytes | int | float) -> Value:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
