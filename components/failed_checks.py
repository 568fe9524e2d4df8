"""What a model's own checks say of an example, in the error that TensorFlow makes of a failed assertion.

Graph execution error: ...
assertion failed: [features.v: column \\'a\\' has a list of length 2, ...] [Condition x == y did not hold ...] ...

The parts of an assertion are in brackets, which the names of columns may hold too.
"""

from __future__ import annotations

import re

_CHECK = re.compile(r"(assertion failed: \[)?(features\.\w+: [^\n]*)")
_END_OF_PART = re.compile(r"\](?: \[Condition [^\n]*)?\s*$")
_SEVERAL_VALUES = re.compile(r"an example has several values in\] \[([^\n]*)\] \[[^\n\]]*\]")
_BETWEEN_COLUMNS = re.compile(r"(?<=takes one) (?=column )")
_ASSERTION = re.compile(r"^assertion failed: \[([^\]]*)\]$")
_OPERATION = re.compile(r"^\{\{.*?\}\} | \[Op:\w+\].*$")
_LOCATION = re.compile(r"Graph execution|Detected at|File |\[\[|\(\d+\)|def |\d+ |$")
MOST_COLUMNS = 3
"""Columns that a message names."""


def reason_of(text: str) -> str:
    """Why a model refuses an example, by the text of TensorFlow's error; empty if that is."""
    if several := columns_with_several_values(text):
        return f"it has several values in {several}"
    return check_of_feature(text) or without_location(text)


def check_of_feature(text: str) -> str | None:
    """The message of a feature column's check: `features.v: ...`; None if it was none that failed."""
    found = _CHECK.search(text)
    if found is None:
        return None
    return _unescaped(_END_OF_PART.sub("", found[2]) if found[1] else found[2]).strip()


def columns_with_several_values(text: str) -> str | None:
    """The columns that have several values where the model takes one, at most three of them named; None if another
    check failed.
    """
    found = _SEVERAL_VALUES.search(text)
    if found is None:
        return None
    columns = _BETWEEN_COLUMNS.split(_unescaped(found[1]).strip())
    more = len(columns) - MOST_COLUMNS
    return "; ".join(columns[:MOST_COLUMNS]) + (f"; and in {more} more columns" if more > 0 else "")


def without_location(text: str) -> str:
    """The first line of an error's text that says what is wrong, without the operation and the code that found it."""
    lines = [_OPERATION.sub("", line).strip() for line in text.splitlines() if line.strip()]
    lines = [_ASSERTION.sub(r"\1", line) for line in lines]
    own = [line for line in lines if not _LOCATION.match(line)]
    return next((line for line in own if not line.startswith("<")), lines[0] if lines else "")


def _unescaped(text: str) -> str:
    """The text as it was before TensorFlow put backslashes in front of quotes and backslashes."""
    return re.sub(r"\\([\\'\"])", r"\1", text)
