"""The format of CSV files that nobody has described: encoding, comments, delimiter, missing values and numbers.

format_of({"kind": "csv", "path": "trips.csv"})     # {..., "delimiter": ";", "encoding": "cp1252"}
null_values(settings, columns_of_texts)             # {"null_values": ("", "NA")}
number_marks(settings, columns_of_texts)            # {"decimal": ",", "thousands": "."}
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import DataError
from headrace.common.storage.files import resolve
from headrace.components.inference import number_marks as marks
from headrace.components.sources import open_source
from headrace.components.sources.streams import open_truncated, read_fully
from headrace.configs.schema.sources import CsvSource
from headrace.configs.schema.sources.csv import DELIMITERS

READ = 1 << 20
"""Bytes of a file by which its encoding is told, and whether it starts with comments."""
COMMENTS = ("#", "%")
NULL_WORDS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "unknown", "-", "--", "?", "."})
"""What people and programs write in place of a number, in lower case."""
MANY_NUMBERS = 20
"""Different numbers beside which one text of other words stands for a missing one, if several rows have it."""
_DIGITS_AND_MARKS = r"^[-+]?\d[-\d.,:/'\s\x{a0}]*$"


def format_of(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with the encoding, the comments and the delimiter of the first file."""
    with open_truncated(resolve(settings["path"])[0]) as stream:
        text = read_fully(stream, READ)
    encoding, comment = _encoding(text), _comment(text)
    settings = settings if encoding is None else {**settings, "encoding": encoding}
    settings = settings if comment is None else {**settings, "comment": comment}
    other = _source(settings).other_delimiter(_columns({**settings, "duplicate_names": "rename"}))
    settings = settings if other is None else {**settings, "delimiter": other}
    try:
        _columns(settings)
    except DataError:
        settings = {**settings, "duplicate_names": "rename"}
        _columns(settings)
    return settings


def _columns(settings: Mapping[str, Any]) -> list[str]:
    return open_source(_source(settings)).columns()


def _source(settings: Mapping[str, Any]) -> CsvSource:
    return CsvSource.model_validate(settings)


def _comment(text: bytes) -> str | None:
    """The character that the first lines start with, if the first of them does not have the fields of a header."""
    lines = [line.decode("latin-1") for line in text.removeprefix(codecs.BOM_UTF8).splitlines() if line.strip()]
    if not lines or lines[0][0] not in COMMENTS:
        return None
    mark = lines[0][0]
    rest = next((line for line in lines if line[0] != mark), "")
    is_header = [lines[0].count(delimiter) for delimiter in DELIMITERS] == [*map(rest.count, DELIMITERS)]
    return None if not rest or is_header else mark


def _encoding(text: bytes) -> str | None:
    """The encoding of a text that is not UTF-8: that of Western Europe."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return "cp1252" if _decodes(text, "cp1252") else "latin-1"
    return None


def _decodes(text: bytes, encoding: str) -> bool:
    try:
        return bool(text.decode(encoding))
    except UnicodeDecodeError:
        return False


def null_values(settings: Mapping[str, Any], texts: Iterable[pa.ChunkedArray]) -> dict[str, tuple[str, ...]]:
    """`null_values` of a CSV file or workbook, if columns of numbers or dates have words for missing ones."""
    empty = {"csv": ("",), "excel": ()}.get(settings["kind"])
    found = [] if empty is None else _null_words(texts)
    return {"null_values": (*(empty or ()), *found)} if found else {}


def _null_words(texts: Iterable[pa.ChunkedArray]) -> list[str]:
    """Those of NULL_WORDS, as written, in columns that have nothing else but numbers, dates and times; and one text
    without digits, such as `k. A.`, that several rows of such a column have among MANY_NUMBERS different ones, and that
    is not a class in another column: the setting is for all columns.
    """
    columns = [(column, column.unique()) for column in texts]
    found = dict[str, None]()
    for column, values in columns:
        words = _words_among_numbers(values)
        marks = [word for word in words if word.strip().lower() not in NULL_WORDS]
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
    return words if len(words) <= len(NULL_WORDS) + 1 else []


def _is_mark(word: str, column: pa.ChunkedArray) -> bool:
    """Whether several rows have a word without digits."""
    return not any(letter.isdigit() for letter in word) and int(pc.sum(pc.equal(column, word)).as_py()) > 1


def _is_class(word: str, values: pa.Array) -> bool:
    """Whether a word is a value of a column of texts."""
    return bool(pc.index(values, pa.scalar(word, values.type)).as_py() >= 0) and not _words_among_numbers(values)


def number_marks(settings: Mapping[str, Any], texts: Iterable[pa.ChunkedArray]) -> dict[str, str]:
    """`decimal` and `thousands` of a CSV file, if with them most of its columns of texts are numbers."""
    if settings["kind"] != "csv":
        return {}
    return marks.number_marks(_source(settings).delimiter, texts)


def group_marks(settings: Mapping[str, Any], texts: Iterable[pa.ChunkedArray]) -> dict[str, str]:
    """`thousands` of a CSV file with decimal commas, if it has a column of groups of digits such as `1.117`, in which
    the point was a decimal one before the comma was known.
    """
    if settings.get("decimal") != "," or "thousands" in settings:
        return {}
    has_groups = any(marks.are_numbers(column.unique(), ",", ".") for column in texts)
    return {"thousands": "."} if has_groups else {}
