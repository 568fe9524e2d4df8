"""Columns as JSON lines, column by column: a call of Arrow for a column, and none of Python for a value.

    json_lines(batch)  ->  uint8 [bytes], UTF-8: one object per row, each with its line break

Numbers have all their digits: integers as they are, floats as the shortest text that is read as the same number. A
missing value, and a float that is not finite, is `null`. Only strings with a quote, a backslash or a control character
pass through Python's encoder, and so do lists. Bytes must be UTF-8.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.common.errors import DataError
from headrace.components.examples.arrow_columns import bytes_of, is_list

_ESCAPED = r'[\x00-\x1f"\\\x7f]'


def json_lines(batch: pa.RecordBatch) -> NDArray[np.uint8]:
    """Each row as a JSON object on a line of its own: uint8 [bytes], for a batch with at least one column.

    Raises DataError, which names the column, for bytes that are not UTF-8.
    """
    pieces: list[Any] = []
    for number, name in enumerate(batch.schema.names):
        before = "{" if number == 0 else ", "
        pieces += [pa.scalar(f"{before}{json.dumps(name, ensure_ascii=False)}: "), _values(name, batch.column(number))]
    # Arrow stores the lines one after the other: together they are the text of the file, without a string for each.
    return bytes_of(pc.binary_join_element_wise(*pieces, pa.scalar("}\n"), "").cast(pa.binary()))


def _values(name: str, column: pa.Array) -> pa.StringArray:
    """Each value as JSON."""
    if is_list(column.type):
        return pa.array([_encoded(values) for values in column.to_pylist()], pa.string())
    if pa.types.is_floating(column.type):
        texts = pc.if_else(pc.is_finite(column), column.cast(pa.string()), None)
    elif pa.types.is_integer(column.type) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        texts = column.cast(pa.string())
    else:
        texts = _strings(name, column)
    return texts.fill_null("null")


def _strings(name: str, column: pa.Array) -> pa.StringArray:
    try:
        texts = column.cast(pa.string())
        texts.validate(full=True)
    except pa.ArrowInvalid:
        hint = "Write .parquet, or list the other columns in `--columns` (`predict.columns` of the config)"
        raise DataError("holds bytes that are not UTF-8, which JSON cannot hold", column=name, hint=hint) from None
    quote = pa.scalar('"')
    quoted = pc.binary_join_element_wise(quote, texts, quote, "")
    special = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), False)
    if not pc.any(special).as_py():
        return quoted
    escaped = pa.array([_encoded(text) for text in texts.filter(special).to_pylist()], pa.string())
    return pc.replace_with_mask(quoted, special, escaped)


def _encoded(value: Any) -> str:
    if isinstance(value, list):
        value = [None if isinstance(one, float) and not math.isfinite(one) else one for one in value]
        if any(isinstance(one, bytes) for one in value):
            value = [one.decode() if isinstance(one, bytes) else one for one in value]
    return json.dumps(value, ensure_ascii=False)
