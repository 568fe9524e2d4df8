"""Numbers whose digits are in groups, such as `1,234,567.5`, `1.234.567,5` or `12,34,567`.

A field is such a number if it consists of an optional sign, one to three digits of which the first is not 0, further
groups of three digits, or of two except for the last group, and an optional fraction. The marks between the groups are
found in the text of a whole block, as offsets in NumPy, so that pyarrow parses the numbers as it does all others.
"""

from __future__ import annotations

import re

import numpy as np

from headrace.components.sources.csv.quotes import Dialect, is_any, quote_runs

STAND_IN = "\x1f"
"""What a mark that is not ASCII becomes, so that it is one byte."""
MARKS = (",", ".", "'", " ", "\u00a0", "\u202f", "\u2019")
"""Marks in common use."""


def without_thousands(text: bytes, dialect: Dialect, thousands: str, decimal: str) -> bytes:
    """The text of some whole records without the marks between groups of digits; `text` itself if there are none.

    Texts that contain a number among other characters may lose its marks too, so that only columns of numbers can be
    read from the result.
    """
    if thousands.encode() not in text:
        return text
    mark = thousands if thousands.isascii() else STAND_IN
    letters = np.frombuffer(text.replace(thousands.encode(), mark.encode()), np.uint8)
    marks = _between_digits(letters, ord(mark))
    if mark == dialect.delimiter and len(marks):
        marks = marks[quote_runs(text, dialect).inside_at(marks)]
    marks = _of_numbers(letters, marks, ord(decimal))
    return np.delete(letters, marks).tobytes() if len(marks) else text


def grouped_number(text: str, thousands: str, decimal: str) -> bool:
    """Whether a text is a number with groups of digits."""
    mark = re.escape(thousands)
    pattern = rf"[+-]?[1-9]\d{{0,2}}({mark}\d{{2,3}})*{mark}\d{{3}}({re.escape(decimal)}\d*)?"
    return re.fullmatch(pattern, text.strip(), re.ASCII) is not None


def mark_of(text: str, decimal: str) -> str | None:
    """The mark in common use with which a text is a number with groups of digits; None if it is not one."""
    return next((mark for mark in MARKS if mark != decimal and grouped_number(text, mark, decimal)), None)


def _between_digits(letters: np.ndarray, mark: int) -> np.ndarray:
    """The offsets of the marks with a digit before and two after."""
    marks = np.flatnonzero(letters == mark)
    marks = marks[(marks > 0) & (marks < len(letters) - 2)]
    return marks[_digits(letters[marks - 1]) & _digits(letters[marks + 1]) & _digits(letters[marks + 2])]


def _of_numbers(letters: np.ndarray, marks: np.ndarray, decimal: int) -> np.ndarray:
    """The marks of those runs of digits and marks, with a sign and a fraction, that are a number."""
    if not len(marks):
        return marks
    within = _digits(letters)
    within |= is_any(letters, (decimal, *b"+-"))
    within[marks] = True
    edges = np.flatnonzero(~within)
    run = np.cumsum(~within, dtype=np.int32)[marks]
    starts = np.append(-1, edges)[run] + 1
    starts += is_any(letters[starts], b"+-")
    last = np.append(run[1:] != run[:-1], True)
    first = np.append(True, last[:-1])
    padded = np.append(letters, np.zeros(4, np.uint8))
    three = _digits(padded[marks + 3])
    fourth = padded[marks + 4]
    after = np.append(marks[1:], 0) - marks
    good = np.where(last, three & ~_digits(fourth) & ~is_any(fourth, b"+-"), (after == 3) | (three & (after == 4)))
    length = marks - starts
    digits = _digits(padded[starts]) & _digits(padded[starts + 1]) | (length == 1)
    good &= ~first | ((length <= 3) & (length >= 1) & digits & (padded[starts] != ord("0")))
    numbers = np.bitwise_and.reduceat(good, np.flatnonzero(first))
    return marks[numbers[np.cumsum(first) - 1]]


def _digits(letters: np.ndarray) -> np.ndarray:
    found: np.ndarray = letters - np.uint8(ord("0")) < 10
    return found
