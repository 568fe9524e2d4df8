"""Texts that stand for a missing value among numbers and dates: `NA`, `-`, `n/a`.

null_values(columns_of_texts)            # ["NA", "-"]
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

WORDS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "unknown", "-", "--", "?", "."})
"""What people and programs write in place of a number, in lower case."""
MANY_NUMBERS = 20
"""Different numbers beside which one text of other words stands for a missing one, if several rows have it."""
_DIGITS_AND_MARKS = r"^[-+]?\d[-\d.,:/'\s\x{a0}]*$"


def null_values(texts: Iterable[pa.ChunkedArray | pa.Array]) -> list[str]:
    """Those of WORDS, as written, in columns that have nothing else but numbers, dates and times; and one text without
    digits, such as `k. A.`, that several rows of such a column have among MANY_NUMBERS different ones.
    """
    found = dict[str, None]()
    for column in texts:
        values = column.unique()
        is_digits = pc.match_substring_regex(values, _DIGITS_AND_MARKS)
        others = values.filter(pc.invert(is_digits)).to_pylist() if pc.any(is_digits).as_py() else []
        if len(others) > len(WORDS) + 1:
            continue
        unknown = [other for other in others if other.strip().lower() not in WORDS]
        if not unknown or (len(unknown) == 1 and _is_mark(unknown[0], column, pc.sum(is_digits).as_py())):
            found |= dict.fromkeys(sorted(others))
    return [*found]


def _is_mark(text: str, column: pa.ChunkedArray | pa.Array, numbers: int) -> bool:
    """Whether a text stands for a missing value among so many different numbers."""
    if numbers < MANY_NUMBERS or any(letter.isdigit() for letter in text):
        return False
    return int(pc.sum(pc.equal(column, text)).as_py()) > 1
