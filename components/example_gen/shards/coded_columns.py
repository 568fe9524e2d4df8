"""Columns whose values repeat as Arrow dictionary arrays, codes of the distinct values: each distinct text is counted
and looked up once, and the feature of each distinct text or integer encoded once. `arrow_columns.plain` undoes it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SAMPLE, MOST_DISTINCT = 4096, 0.5
"""A column of texts is coded if at most this share of its first values, and of all of them, is distinct."""
MOST_DISTINCT_INTEGERS = 0.25
"""The same for integers, which take less time to encode."""


def coded(column: pa.Array, most_distinct: float = MOST_DISTINCT) -> pa.DictionaryArray | None:
    """A column, its distinct values in the order in which they first occur, texts as binary. None if too many differ.

    The codes are of the smallest signed type.
    """
    sample = column.slice(0, SAMPLE)
    if len(sample.unique()) > most_distinct * len(sample):
        return None
    found = (column.cast(pa.binary()) if pa.types.is_string(column.type) else column).dictionary_encode()
    if len(found.dictionary) > most_distinct * len(found):
        return None
    kind = pa.from_numpy_dtype(np.min_scalar_type(-max(1, len(found.dictionary))))
    return pa.DictionaryArray.from_arrays(found.indices.cast(kind), found.dictionary)


def coded_texts(rows: pa.RecordBatch, order: NDArray[np.int64]) -> dict[str, pa.DictionaryArray]:
    """The columns of texts that are worth coding, with their rows in another order: a permutation of them."""
    places = pa.array(order)
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
    found = {name: coded(rows.column(name).take(places)) for name in texts}
    return {name: codes for name, codes in found.items() if codes is not None}


def coded_integers(rows: pa.RecordBatch, order: NDArray[np.int64]) -> dict[str, pa.DictionaryArray]:
    """The columns of integers that are worth coding, with their rows in another order: a permutation of them."""
    places = pa.array(order)
    integers = [field.name for field in rows.schema if pa.types.is_integer(field.type)]
    found = {name: coded(rows.column(name), MOST_DISTINCT_INTEGERS) for name in integers}
    return {
        name: pa.DictionaryArray.from_arrays(codes.indices.take(places), codes.dictionary)
        for name, codes in found.items()
        if codes is not None
    }


def with_columns(batch: pa.RecordBatch, others: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A batch with others in place of the columns of the same names, or at the end."""
    columns = {**dict(zip(batch.schema.names, batch.columns, strict=True)), **others}
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns])
