"""Texts that stand for a missing value among numbers and dates: `NA`, `-`, `n/a`.

null_values(columns_of_texts)            # ["NA", "-"]
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

WORDS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "unknown", "-", "--", "?", "."})
"""What people and programs write in place of a number, in lower case."""
_DIGITS_AND_MARKS = r"^[-+]?\d[-\d.,:/'\s\x{a0}]*$"


def null_values(texts: Iterable[pa.ChunkedArray | pa.Array]) -> list[str]:
    """Those of WORDS, as written, in columns that have nothing else but numbers, dates and times."""
    found = dict[str, None]()
    for column in texts:
        values = column.unique()
        is_digits = pc.match_substring_regex(values, _DIGITS_AND_MARKS)
        others = values.filter(pc.invert(is_digits)).to_pylist() if pc.any(is_digits).as_py() else []
        if len(others) <= len(WORDS) and all(other.strip().lower() in WORDS for other in others):
            found |= dict.fromkeys(sorted(others))
    return [*found]
