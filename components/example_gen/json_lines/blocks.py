"""Stretches of text files in blocks of whole lines."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from headrace.components.example_gen.delimited.blocks import LARGEST_RECORD, Block
from headrace.components.example_gen.delimited.files import CHUNK, line_at, read_fully
from headrace.components.example_gen.delimited.lenient import cut_off_at, is_cut_off, opened_for
from headrace.components.example_gen.parts import NAMED, room
from headrace.components.example_gen.skips import Skips
from headrace.configs.errors import DataError

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Stretch:
    """The lines of a file that start from byte `start` up to `end` of its text; None: to the end of the file."""

    path: str
    start: int = 0
    end: int | None = None


def blocks(stretch: Stretch, skips: Skips | None = None, *, columns: int = 1) -> Iterator[Block]:
    """The lines in blocks of about CHUNK bytes, more of very many columns, without a byte order mark at the start of
    the file.

    skips: takes the line that a gzip file was cut off in; None: it is an error.
    """
    rest, offset, size = b"", max(stretch.start - 1, 0), room(CHUNK, columns, NAMED)
    with opened_for(stretch.path, skips) as stream:
        stream.seek(offset)
        skipping = stretch.start > 0
        while text := read_fully(stream, size):
            if offset == 0 and not rest:
                text, offset = _without_mark(stretch.path, text)
            text = rest + text
            if skipping:
                line = text.find(b"\n") + 1 or len(text)
                skipping = not text.endswith(b"\n", 0, line)
                text, offset = text[line:], offset + line
            stop = _stop(text, offset, stretch.end)
            if stop:
                yield Block(stretch.path, offset, text[:stop])
            elif len(text) > LARGEST_RECORD:
                raise _too_long(stretch.path, offset)
            rest, offset = text[stop:], offset + stop
            if stretch.end is not None and not skipping and offset >= stretch.end:
                return
        cut_off = is_cut_off(stream)
    if skips is not None and cut_off:
        skips.add(partial(cut_off_at, stretch.path, offset))
    elif rest:
        yield Block(stretch.path, offset, rest)


def _stop(text: bytes, offset: int, end: int | None) -> int:
    """Where the last whole line of `text` ends that starts before `end`; 0 if there is none."""
    if end is not None and offset + len(text) >= end:
        if offset >= end:
            return 0
        return text.find(b"\n", end - 1 - offset) + 1 or text.rfind(b"\n", 0, max(end - 1 - offset, 0)) + 1
    return text.rfind(b"\n") + 1


def _without_mark(path: str, text: bytes) -> tuple[bytes, int]:
    if text.startswith(_UTF_16):
        raise DataError("is UTF-16, not UTF-8", file=path, hint=f"Convert it: iconv -f UTF-16 -t UTF-8 {path}")
    mark = len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0
    return text[mark:], mark


def _too_long(path: str, offset: int) -> DataError:
    return DataError(
        f"a line starts here that is longer than {LARGEST_RECORD >> 20} MiB",
        file=path,
        line=line_at(path, offset),
        hint="Each line has to be one JSON object",
    )
