"""Files of lines as blocks of whole lines."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from headrace.common.errors import DataError
from headrace.components.examples.parts import NAMED, room
from headrace.components.examples.skips import Skips
from headrace.components.sources.streams import (
    CHUNK,
    LineRange,
    is_truncated,
    line_at,
    open_for,
    read_fully,
    truncation_error,
)

LARGEST_LINE = 1 << 26
"""Bytes."""

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

OpenText = Callable[[str, Skips | None], AbstractContextManager[BinaryIO]]
"""Opens the text of a file; with Skips, what a truncated gzip file still has."""


@dataclass(frozen=True)
class LineBlock:
    """Some whole lines of a file. `offset`: where they start in the unpacked text."""

    path: str
    offset: int
    text: bytes


def blocks(
    lines: LineRange, skips: Skips | None = None, *, columns: int = 1, open_text: OpenText = open_for
) -> Iterator[LineBlock]:
    """The lines in blocks of about CHUNK bytes, or more for very many columns, without the file's byte order mark.

    Args:
        lines: the lines.
        skips: counts the last line of a truncated gzip file; None: it is an error.
        columns: how many columns there are.
        open_text: opens the text of the file.
    """
    rest, offset, size = b"", max(lines.start - 1, 0), room(CHUNK, columns, NAMED)
    with open_text(lines.path, skips) as stream:
        stream.seek(offset)
        skipping = lines.start > 0
        while text := read_fully(stream, size):
            if offset == 0 and not rest:
                text, offset = _without_mark(lines.path, text)
            text = rest + text
            if skipping:
                line = text.find(b"\n") + 1 or len(text)
                skipping = not text.endswith(b"\n", 0, line)
                text, offset = text[line:], offset + line
            stop = _last_line_end(text, offset, lines.end)
            if stop:
                yield LineBlock(lines.path, offset, text[:stop])
            elif len(text) > LARGEST_LINE:
                raise _too_long(lines.path, offset)
            rest, offset = text[stop:], offset + stop
            if lines.end is not None and not skipping and offset >= lines.end:
                return
        truncated = is_truncated(stream)
    if skips is not None and truncated:
        skips.add(partial(truncation_error, lines.path, offset))
    elif rest:
        yield LineBlock(lines.path, offset, rest)


def _last_line_end(text: bytes, offset: int, end: int | None) -> int:
    """The end of the last whole line of `text` that starts before `end`; 0 if there is none."""
    if end is not None and offset + len(text) >= end:
        if offset >= end:
            return 0
        return text.find(b"\n", end - 1 - offset) + 1 or text.rfind(b"\n", 0, max(end - 1 - offset, 0)) + 1
    return text.rfind(b"\n") + 1


def _without_mark(path: str, text: bytes) -> tuple[bytes, int]:
    if text.startswith(UTF_16):
        raise DataError("is UTF-16, not UTF-8", file=path, hint=f"Convert it: iconv -f UTF-16 -t UTF-8 {path}")
    mark = len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
    return text[mark:], mark


def _too_long(path: str, offset: int) -> DataError:
    return DataError(
        f"the record that starts here is longer than {LARGEST_LINE >> 20} MiB",
        file=path,
        line=line_at(path, offset),
        hint="Each record must be one JSON object",
    )


def lines_of(text: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and the text of each line that is not blank."""
    start = 0
    for line in text.split(b"\n"):
        if line.strip(b" \t\r"):
            yield start, line
        start += len(line) + 1
