"""Columns of texts as codes of their distinct values: each distinct text is counted and looked up once.

coded(column)       an Arrow dictionary array, if values repeat; `arrow_columns.plain` makes texts of it again
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SAMPLE, MOST_DISTINCT = 4096, 0.5
"""A column is coded if at most this share of its first values, and of all of them, is distinct."""


def coded(column: pa.Array) -> pa.DictionaryArray | None:
    """A column of texts, its distinct values as binary in the order in which they first occur. None if most differ.

    The codes are of the smallest signed type.
    """
    sample = column.slice(0, SAMPLE)
    if len(sample.unique()) > MOST_DISTINCT * len(sample):
        return None
    found = column.cast(pa.binary()).dictionary_encode()
    if len(found.dictionary) > MOST_DISTINCT * len(found):
        return None
    kind = pa.from_numpy_dtype(np.min_scalar_type(-max(1, len(found.dictionary))))
    return pa.DictionaryArray.from_arrays(found.indices.cast(kind), found.dictionary)


def coded_columns(rows: pa.RecordBatch, order: NDArray[np.int64]) -> dict[str, pa.DictionaryArray]:
    """The columns of texts that are worth coding, with their rows in another order: a permutation of them."""
    places, found = pa.array(order), dict[str, pa.DictionaryArray]()
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            codes = coded(column.take(places))
            if codes is not None:
                found[name] = codes
    return found


def with_columns(batch: pa.RecordBatch, more: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A batch with more columns at the end."""
    return pa.RecordBatch.from_arrays([*batch.columns, *more.values()], [*batch.schema.names, *more])
