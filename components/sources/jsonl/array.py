"""Files with one JSON array each as a source. They are read like JSON lines, with one element on each line:

    [{"a": 1},            {"a": 1}
     {"a": 2}]       ->   {"a": 2}

Bytes are replaced, and none are added or removed, so that an offset means the same in both texts: commas between the
elements become line breaks; line breaks outside strings, and the brackets of the array, become spaces. What is not
known to be JSON yet is left as it is, and is found when the lines are read.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from headrace.common.errors import DataError
from headrace.common.storage.files import resolve
from headrace.components.examples.skips import Skips
from headrace.components.sources.jsonl.blocks import UTF_16
from headrace.components.sources.jsonl.exact import ARRAY_HINT, LINE_HINT, BadLineError
from headrace.components.sources.jsonl.source import JsonlFiles
from headrace.components.sources.streams import is_truncated, line_at, open_for, open_truncated, read_fully
from headrace.components.spans.patterns import glob_of

ELEMENT_HINT = "Each element of the array must be one object: {...}"

_COMMA_HINT = "Remove the comma, or write the element that is missing"
_BLANK = b" \t\r\n"
_SPACE, _NEWLINE, _QUOTE = ord(" "), ord("\n"), ord('"')
_STEP = np.zeros(256, np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1
_MARKS = np.zeros(256, np.bool_)
_MARKS[[*b"[]{},\r\n"]] = True


@dataclass(frozen=True)
class _Separator:
    """The last bracket or comma around an element. passed: whether anything but white space follows it."""

    mark: bytes = b""
    offset: int = 0
    passed: bool = False


class ArrayText:
    """The lines of an array, read from a stream. Raises DataError where the text is not that of one array.

    A bracket that is never closed, or is closed twice, shows only at the end of the file or of the array, because the
    elements are not parsed here.
    """

    def __init__(self, path: str, stream: BinaryIO) -> None:
        self._path, self._stream = path, stream
        self._offset = self._depth = 0
        self._in_string = self._escaped = self._ended = False
        self._separator = _Separator()

    @property
    def cut_off(self) -> bool:
        """Whether the stream is that of a truncated gzip file."""
        return is_truncated(self._stream)

    def seek(self, offset: int) -> None:
        """Only the start can be sought."""
        if offset:
            raise ValueError("an array is read from its start")

    def read(self, size: int) -> bytes:
        """The next bytes, or none at the end of the file."""
        text = self._stream.read(size)
        if not text:
            if not self._ended and not self.cut_off:
                raise self._error(self._not_closed(), self._offset)
            return b""
        start = self._start(text) if not self._depth and not self._ended else 0
        lines = text if start is None else self._lines(text, start)
        self._offset += len(text)
        return lines

    def _start(self, text: bytes) -> int | None:
        """Where the array starts in the text; None if there is only white space."""
        mark = len(codecs.BOM_UTF8) if not self._offset and text.startswith(codecs.BOM_UTF8) else 0
        rest = text[mark:].lstrip(_BLANK)
        start = len(text) - len(rest)
        if rest and not rest.startswith(b"["):
            hint = "For one object on each line, set `kind: jsonl`" if rest.startswith(b"{") else ""
            hint = f"Convert it: iconv -f UTF-16 -t UTF-8 {self._path}" if text.startswith(UTF_16) else hint
            what = f"is not a JSON array of objects: it starts with {rest[:1]!r}, not with '['"
            raise self._error(what, self._offset + start, hint)
        return start if rest else None

    def _lines(self, text: bytes, start: int) -> bytes:
        """The text from the start of the array, with its marks replaced."""
        letters = np.frombuffer(text, np.uint8).copy()
        letters[:start][letters[:start] == _NEWLINE] = _SPACE
        positions = np.flatnonzero(_MARKS[letters[start:]]) + start
        positions = positions[~self._within_strings(text, positions)]
        marks = letters[positions]
        depths = self._depth + np.cumsum(_STEP[marks], dtype=np.int32)
        end = self._end(positions, depths)
        if end is not None:
            self._check_rest(text, end)
            letters[end + 1 :] = _SPACE
        before = depths - _STEP[marks]
        solid = (marks != _NEWLINE) & (marks != ord("\r"))
        separators = self._separators(marks, before, depths)
        self._check_elements(text, start, positions[solid], separators[solid], end)
        letters[positions[~solid]] = _SPACE
        letters[positions[(depths == 1) & (marks == ord(","))]] = _NEWLINE
        letters[positions[((before == 0) & (depths == 1)) | ((before == 1) & (depths == 0))]] = _SPACE
        self._depth = int(depths[-1]) if len(depths) else self._depth
        return letters.tobytes()

    def _within_strings(self, text: bytes, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these positions are in strings; takes note of how the text ends."""
        plain = text
        if b"\\" in text or self._escaped:
            plain = (b"x" + text[1:]) if self._escaped else text
            plain = plain.replace(b"\\\\", b"xx").replace(b'\\"', b"xx")
        self._escaped = plain.endswith(b"\\")
        quotes = np.flatnonzero(np.frombuffer(plain, np.uint8) == _QUOTE)
        within = (np.searchsorted(quotes, positions) + self._in_string) % 2 == 1
        self._in_string = bool((len(quotes) + self._in_string) % 2)
        return np.asarray(within, np.bool_)

    def _end(self, positions: NDArray[np.int64], depths: NDArray[np.int32]) -> int | None:
        """Where the array ends in this text; None if it goes on, or has ended before."""
        if self._ended:
            return -1
        ends = np.flatnonzero(depths <= 0)
        self._ended = bool(len(ends))
        return int(positions[ends[0]]) if len(ends) else None

    @staticmethod
    def _separators(
        marks: NDArray[np.uint8], before: NDArray[np.int32], depths: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Which marks are the brackets of the array, or commas between its elements."""
        outer = ((before == 0) & (depths == 1)) | ((before == 1) & (depths == 0))
        return np.asarray(outer | ((depths == 1) & (marks == ord(","))), np.bool_)

    def _check_elements(
        self, text: bytes, start: int, positions: NDArray[np.int64], separators: NDArray[np.bool_], end: int | None
    ) -> None:
        """Raise DataError for a comma without an element before it, or after the last element.

        Between two separators that follow each other among the marks is white space or a single value, but no object.
        """
        within = separators if end is None else separators & (positions <= end)
        chosen = np.flatnonzero(within)
        alone = np.diff(chosen, prepend=-1) == 1
        for index in np.flatnonzero(alone).tolist():
            place, last = int(positions[chosen[index]]), int(positions[chosen[index - 1]]) if index else start - 1
            mark = text[last : last + 1] if index else self._separator.mark
            empty = not text[last + 1 : place].strip(_BLANK) and not (index == 0 and self._separator.passed)
            if empty and text[place : place + 1] == b",":
                raise self._error("there is no element before this comma", self._offset + place, _COMMA_HINT)
            if empty and mark == b",":
                where = self._offset + last if index else self._separator.offset
                raise self._error("there is no element after this comma", where, _COMMA_HINT)
        if len(chosen):
            last = int(positions[chosen[-1]])
            rest = bool(text[last + 1 :].strip(_BLANK))
            self._separator = _Separator(text[last : last + 1], self._offset + last, rest)
        elif not self._separator.passed:
            self._separator = replace(self._separator, passed=bool(text[start:].strip(_BLANK)))

    def _check_rest(self, text: bytes, end: int) -> None:
        rest = text[end + 1 :].lstrip(_BLANK)
        if rest:
            what = f"the JSON array ends before this line does: {rest[:20].decode(errors='replace')!r} follows"
            hint = "A bracket is missing or superfluous in or before the last record, or the file has several arrays"
            raise self._error(what, self._offset + len(text) - len(rest), hint)

    def _not_closed(self) -> str:
        if not self._offset:
            return "is not a JSON array of objects: the file is empty"
        missing = f"{self._depth} brackets are missing" if self._depth > 1 else "its `]` is missing"
        return f"the JSON array is not closed: {'the file ends in a string' if self._in_string else missing}"

    def _error(self, what: str, offset: int, hint: str = "Copy or write the file again") -> DataError:
        return DataError(what, file=self._path, line=line_at(self._path, offset, open_truncated), hint=hint)


@contextmanager
def open_array(path: str, skips: Skips | None) -> Iterator[BinaryIO]:
    """The lines of the array in a file; with `skips`, those that a truncated gzip file still has."""
    with open_for(path, skips) as stream:
        yield cast(BinaryIO, ArrayText(path, stream))


def kind_of_json(pattern: str) -> str:
    """The kind of source of a `.json` file, the first of a pattern: `json` if it starts like an array, else `jsonl`."""
    with open_truncated(resolve(glob_of(pattern))[0]) as stream:
        text = read_fully(stream, 1 << 16)
    return "json" if text.removeprefix(codecs.BOM_UTF8).lstrip(_BLANK).startswith(b"[") else "jsonl"


@dataclass(frozen=True)
class JsonArrays(JsonlFiles):
    """The files of one config, in the order of their paths, each of which is read from its start to its end."""

    splittable: ClassVar[bool] = False

    @staticmethod
    def open_text(path: str, skips: Skips | None) -> AbstractContextManager[BinaryIO]:
        """The elements of the array in a file as lines."""
        return open_array(path, skips)

    def hint(self, error: BadLineError) -> str:
        """What to do about a record that cannot be read."""
        return ELEMENT_HINT if error.hint in {ARRAY_HINT, LINE_HINT} else error.hint
