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
    digits, such as `k. A.`, that several rows of such a column have among MANY_NUMBERS different ones, and that is not
    a class in another column: the setting is for all columns.
    """
    columns = [(column, column.unique()) for column in texts]
    found = dict[str, None]()
    for column, values in columns:
        words = _words_among_numbers(values)
        marks = [word for word in words if word.strip().lower() not in WORDS]
        if not marks or (
            len(marks) == 1
            and len(values) - len(words) >= MANY_NUMBERS
            and _is_mark(marks[0], column)
            and not any(_is_class(marks[0], others) for _, others in columns)
        ):
            found |= dict.fromkeys(sorted(words))
    return [*found]


def _words_among_numbers(values: pa.Array) -> list[str]:
    """The different values of a column that are no number, date or time, if there are few of them among such."""
    is_digits = pc.match_substring_regex(values, _DIGITS_AND_MARKS)
    words: list[str] = values.filter(pc.invert(is_digits)).to_pylist() if pc.any(is_digits).as_py() else []
    return words if len(words) <= len(WORDS) + 1 else []


def _is_mark(word: str, column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether several rows have a word without digits."""
    return not any(letter.isdigit() for letter in word) and int(pc.sum(pc.equal(column, word)).as_py()) > 1


def _is_class(word: str, values: pa.Array) -> bool:
    """Whether a word is a value of a column of texts."""
    return bool(pc.index(values, pa.scalar(word, values.type)).as_py() >= 0) and not _words_among_numbers(values)
