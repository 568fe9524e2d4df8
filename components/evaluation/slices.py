"""Which slice each row of a batch belongs to, by the raw data columns.

(TFMA itself looks a slice's column up among the transformed features first, where a number is a z-score.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Value = str | int | float | None
SliceKey = tuple[tuple[str, Value], ...]
"""(column, value) pairs, by column, as TFMA's slice keys; None is a missing value, () the whole."""
_LEAST_INT64 = -(1 << 63)
MISSING = "(missing)"
"""The slice of the rows whose value is missing, for people and for TFMA."""


@dataclass(frozen=True)
class Slicing:
    """The slices that one list of columns makes of a batch. groups: int64 [rows], an index into keys."""

    keys: Sequence[SliceKey]
    groups: NDArray[np.int64]


def slicing(batch: pa.RecordBatch, columns: Sequence[str]) -> Slicing:
    """Group the rows by the values of the columns together; no columns: all rows are one slice, the whole.

    Every row is in one of the slices: the rows whose value is missing (absent, an empty list or text, NaN, the least
    int64, as for features) are one too.
    """
    keys: list[SliceKey] = [()]
    groups = np.zeros(batch.num_rows, np.int64)
    for column in sorted(columns):
        values, index = _first_values(batch, column)
        present, groups = np.unique(groups * len(values) + index, return_inverse=True)
        pairs = [divmod(int(pair), len(values)) for pair in present]
        keys = [(*keys[before], (column, values[value])) for before, value in pairs]
    return Slicing(keys, groups)


def in_words(keys: Iterable[SliceKey]) -> dict[SliceKey, tuple[tuple[str, str | int | float], ...]]:
    """For each key, the same with MISSING for missing values, in more brackets where a column has that as a value."""
    keys = list(keys)
    there = {pair for key in keys for pair in key}
    names: dict[str, str] = {}
    for column, value in there:
        if value is None:
            name = MISSING
            while (column, name) in there:
                name = f"({name})"
            names[column] = name
    return {key: tuple((column, names[column] if value is None else value) for column, value in key) for key in keys}


def _first_values(batch: pa.RecordBatch, column: str) -> tuple[list[Value], NDArray[np.int64]]:
    """None and the distinct values of a column of lists; and for each row the place of its first value there, or of
    None.
    """
    place = batch.schema.get_field_index(column)
    if place < 0 or pa.types.is_null(batch.schema.types[place]):
        return [None], np.zeros(batch.num_rows, np.int64)
    lists = batch.column(place)
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    encoded = lists.flatten().dictionary_encode()
    places: dict[Value, int] = {None: 0}
    # What differs in Arrow may be one value here: missing in several ways, or 0.0 and -0.0.
    place_of = np.array([places.setdefault(_value(each), len(places)) for each in encoded.dictionary.to_pylist()], int)
    index = np.zeros(batch.num_rows, np.int64)
    index[lengths > 0] = place_of[np.asarray(encoded.indices)[(np.cumsum(lengths) - lengths)[lengths > 0]]]
    return list(places), index


def _value(value: bytes | int | float) -> Value:
    """As it stands in a slice's key. Bytes that are not UTF-8 are written as escapes, so that each stays its own."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace") or None
    if isinstance(value, int):
        return None if value == _LEAST_INT64 else value
    return None if math.isnan(value) else value + 0.0  # -0.0 is 0.0
