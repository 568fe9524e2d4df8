"""How often each text occurs, as Arrow tables: what StatisticsGen and the vocabularies count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

NO_COUNTS = pa.table({"values": pa.array([], pa.large_binary()), "counts": pa.array([], pa.int64())})
"""Counts of nothing. values: large_binary; counts: int64."""


def summed(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables like NO_COUNTS as one that has each value once, in the order in which they first occur.

    Codes by Arrow's hash table, added up by NumPy, take a quarter of the time of Arrow's `group_by`. Sums are exact up
    to 2^53.
    """
    every = pa.concat_tables([NO_COUNTS, *tables])
    coded = every["values"].combine_chunks().dictionary_encode(null_encoding="encode")
    weights = every["counts"].combine_chunks()
    counts = np.bincount(np.asarray(coded.indices), np.asarray(weights), len(coded.dictionary)).astype(np.int64)
    return pa.table([coded.dictionary, pa.array(counts)], schema=NO_COUNTS.schema)


def counted(values: pa.Array) -> pa.Table:
    """How often each value of an array of texts occurs. Nulls must not occur.

    values: texts, which are counted in the order in which they first occur, or their codes, which are counted in the
    order of the dictionary. A slice of a partition's codes may have another order than its texts.
    """
    if not pa.types.is_dictionary(values.type):
        found = values.value_counts()
        return pa.table([found.field("values").cast(pa.large_binary()), found.field("counts")], schema=NO_COUNTS.schema)
    counts = np.bincount(np.asarray(values.indices), minlength=len(values.dictionary))
    present = np.flatnonzero(counts)
    distinct = values.dictionary.take(pa.array(present)).cast(pa.large_binary())
    return pa.table([distinct, pa.array(counts[present])], schema=NO_COUNTS.schema)
