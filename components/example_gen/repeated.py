"""Columns whose values repeat: what is computed of a value is computed once for each different one."""

from __future__ import annotations

import pyarrow as pa

SAMPLE, FEW = 512, 128
"""Values that are looked at first, and how many different ones of them are few."""

SHARE = 4
"""A value has to stand there this often, on average, for it to pay."""


def repeated(column: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """The different values of a column (null may be one) and the index of each row's in them; None where most values
    are different, and for floating-point numbers, of which a dictionary would take 0.0 and -0.0 for the same.
    """
    if len(column) < SHARE * SAMPLE or pa.types.is_floating(column.type) or pa.types.is_nested(column.type):
        return None
    if len(column.slice(0, SAMPLE).unique()) > FEW:
        return None
    coded = column.dictionary_encode(null_encoding="encode")
    return None if len(coded.dictionary) * SHARE > len(column) else (coded.dictionary, coded.indices)
