"""Numbers that are not written with a decimal point alone: `3,5`, `1.234,5`, `1'234.5`.

number_marks(";", columns_of_texts)            # {"decimal": ",", "thousands": "."}
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.sources.csv.thousands import MARKS


def number_marks(delimiter: str, texts: Iterable[pa.ChunkedArray | pa.Array]) -> dict[str, str]:
    """`decimal` and `thousands` of a CSV file, if with them most of its columns of texts are numbers.

    A comma before three digits is taken for that of a fraction if the delimiter is a semicolon.
    """
    points = [{"thousands": mark} for mark in MARKS if mark != "."]
    commas = [{"decimal": ","}, *({"decimal": ",", "thousands": mark} for mark in MARKS if mark != ",")]
    options = points if delimiter == "," else [*points, *commas] if delimiter != ";" else [*commas, *points]
    columns = [column.unique() for column in texts]
    fitting = [sum(are_numbers(column, **option) for column in columns) for option in options]
    if not any(fitting):
        return {}
    found = options[fitting.index(max(fitting))]
    decimal, thousands = found.get("decimal"), found.get("thousands", ".")
    if decimal is None or thousands == ".":  # a point between thousands cannot be the decimal point too
        return found
    numbers = (column for column in columns if are_numbers(column, **found))
    has_decimal = any(pc.any(pc.match_substring(column, decimal)).as_py() for column in numbers)
    return found if has_decimal else {"thousands": thousands}


def are_numbers(texts: pa.Array, decimal: str = ".", thousands: str | None = None) -> bool:
    """Whether all texts are numbers, and some of them have a mark."""
    groups = rf"|[1-9]\d{{0,2}}({re.escape(thousands)}\d{{3}})+" if thousands else ""
    pattern = rf"^-?(\d+{groups})({re.escape(decimal)}\d+)?$"
    marked = pc.any(pc.match_substring_regex(texts, "[^-0-9]")).as_py()
    return bool(marked and pc.all(pc.match_substring_regex(texts, pattern)).as_py())
