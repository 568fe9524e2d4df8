"""Columns whose values repeat: what is computed of a value is computed once for each different one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

SAMPLE, FEW = 512, 128
"""Values that are looked at first, and how many different ones of them are few."""

SHARE = 4
"""A value has to stand there this often, on average, for it to pay."""

RANGE = 1024
"""Whole numbers that lie this close together are counted from the smallest, which is quicker than a hash table."""


@dataclass(frozen=True)
class Counted:
    """All whole numbers from `first` to `last`, and perhaps null behind them."""

    first: int
    last: int
    null: bool
    arrow: pa.DataType

    @property
    def values(self) -> pa.Array:
        """Them as a column."""
        return pa.array([*range(self.first, self.last + 1), *[None] * self.null], self.arrow)


def repeated(column: pa.Array) -> tuple[pa.Array | Counted, NDArray[np.int32]] | None:
    """The different values of a column (null may be one, and some may occur nowhere) and the place of each row's among
    them: int32 [rows]. None where most values are different, and for floating-point numbers, of which a dictionary
    would take 0.0 and -0.0 for the same.
    """
    if len(column) < SHARE * SAMPLE or pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        return None
    counted = _counted(column) if pa.types.is_integer(column.type) else None
    if counted is not None:
        return counted, _places(column, counted)
    if len(column.slice(0, SAMPLE).unique()) > FEW:
        return None
    coded = column.dictionary_encode(null_encoding="encode")
    return None if len(coded.dictionary) * SHARE > len(column) else (coded.dictionary, coded.indices.to_numpy())


def numbers_of(column: pa.Array) -> NDArray[np.number]:
    """The integers or floats of a column where they lie; any number where one is missing. Arrow's `to_numpy` would
    import pandas, which takes half a second.
    """
    kind = "f" if pa.types.is_floating(column.type) else "u" if pa.types.is_unsigned_integer(column.type) else "i"
    dtype = np.dtype(f"{kind}{column.type.bit_width // 8}")
    if not len(column):
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def valid_of(column: pa.Array) -> NDArray[np.bool_] | None:
    """Which values of a column, not of type null, are there; None for all."""
    if not column.null_count:
        return None
    first, skipped = divmod(column.offset, 8)
    bits = np.frombuffer(column.buffers()[0], np.uint8)[first:]
    return np.unpackbits(bits, count=skipped + len(column), bitorder="little")[skipped:].view(bool)


def _counted(column: pa.Array) -> Counted | None:
    edges = pc.min_max(column)
    first, last = edges["min"].as_py(), edges["max"].as_py()
    if first is None or last - first >= min(RANGE, len(column) // SHARE):
        return None
    return Counted(first, last, column.null_count > 0, column.type)


def _places(column: pa.Array, counted: Counted) -> NDArray[np.int32]:
    which, valid = (numbers_of(column) - counted.first).astype(np.int32), valid_of(column)
    return which if valid is None else np.where(valid, which, np.int32(counted.last - counted.first + 1))
