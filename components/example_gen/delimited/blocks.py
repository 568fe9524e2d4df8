"""Segments of delimited files, and the blocks of whole records that they are read in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from headrace.components.example_gen.delimited.files import CHUNK, line_at, opened, read_fully
from headrace.components.example_gen.delimited.lenient import cut_off_at, is_cut_off, opened_for
from headrace.components.example_gen.delimited.quotes import (
    Dialect,
    Runs,
    ends_inside,
    fields,
    last_record_end,
    record_ends,
    runs,
)
from headrace.components.example_gen.parts import room
from headrace.components.example_gen.skips import Skips
from headrace.configs.errors import DataError

_QUOTES = (
    "Close the field where it ends; a quote that belongs to the text is doubled inside a quoted field. If the data"
    " quotes with another character, or not at all, set `data.source.quote` to that one, or to one that does not occur"
)
LARGEST_RECORD = 1 << 26
"""Bytes. A longer record is taken for an open quote that swallows the rest of the file."""


@dataclass(frozen=True)
class Segment:
    """A stretch of a file between two records. Offsets are in the unpacked text; end None: to the end of the file."""

    path: str
    start: int
    end: int | None = None


@dataclass(frozen=True)
class Block:
    """Some whole records, and the offset of the first one in the unpacked text of its file."""

    path: str
    offset: int
    text: bytes


def blocks(segment: Segment, dialect: Dialect, skips: Skips | None = None, *, columns: int = 1) -> Iterator[Block]:
    """The segment in blocks of about CHUNK bytes, more of very many columns, so memory does not depend on its size.
    Raises DataError at a quote that is out of place.

    skips: takes the record that a gzip file was cut off in; None: it is an error.
    """
    size = room(CHUNK, columns)
    rest, offset, cut_off = b"", segment.start, False
    with opened_for(segment.path, skips) as stream:
        stream.seek(segment.start)
        while text := read_fully(stream, _next_size(segment, offset + len(rest), size)):
            text = rest + text
            found = runs(text, dialect) if dialect.quote.encode() in text else None
            if found is not None:
                check_closing(Block(segment.path, offset, text), found, dialect)
            end = last_record_end(text, found)
            if end:
                yield Block(segment.path, offset, text[:end])
            elif len(text) > LARGEST_RECORD:
                raise _too_long(segment.path, offset)
            rest, offset = text[end:], offset + end
        cut_off = skips is not None and is_cut_off(stream)
    if skips is not None and cut_off:
        skips.add(partial(cut_off_at, segment.path, offset))
        return
    if ends_inside(rest, dialect):
        raise unclosed(segment.path, segment.start, dialect)
    if rest:
        yield Block(segment.path, offset, rest)


def chunks(
    path: str, start: int, end: int | None, dialect: Dialect, *, first: bool = False
) -> Iterator[tuple[int, int, bytes]]:
    """The text between two arbitrary offsets: (offset, byte before, chunk). No run of quotes is cut: the run that
    `start` falls into is left out, the one that `end` falls into is there to its end. `first`: a record starts at
    `start`, whatever byte (of a byte order mark) stands before.
    """
    quote = dialect.quote.encode()
    with opened(path) as stream:
        stream.seek(start if first else start - 1)
        before = b"\n" if first else read_fully(stream, 1)
        offset, rest, whole = start, b"", before != quote
        while text := read_fully(stream, min(CHUNK, end - offset - len(rest)) if end is not None else CHUNK):
            text = rest + text
            if not whole:
                left = text.lstrip(quote)
                offset, before, whole = offset + len(text) - len(left), quote, bool(left)
                text = left
            body = text.rstrip(quote)
            rest = text[len(body) :]
            if body:
                yield offset, before[0], body
                offset, before = offset + len(body), body[-1:]
        while rest and rest.endswith(quote) and (more := stream.read(1)) == quote:
            rest += more
    if rest:
        yield offset, before[0], rest


def check_closing(
    block: Block, found: Runs, dialect: Dialect, start: int | None = None, opened_before: int | None = None
) -> None:
    """Raise DataError if a quoted field goes on after its closing quote.

    found: the block's runs; start: where a record starts, no later than the block; None: where the block starts;
    opened_before: the offset of the quote before the block whose field it starts in.
    """
    path, offset, text = block.path, block.offset, block.text
    bad = found.bad_close(text, dialect)
    if bad is None:
        return
    closing, opening = int(found.ends[bad]), found.opened_at(bad)
    opened_at = offset + opening if opening is not None else opened_before
    field = "a field" if opened_at is None else _field(path, offset if start is None else start, opened_at, dialect)
    after = text[closing : closing + 20].splitlines()[0].decode(errors="replace")
    place = line_at(path, offset + closing)
    raise DataError(
        f"a quote ({dialect.quote}) opens {field} here; the one that closes it, in line {place}, is followed by"
        f" {after!r}, which is neither a delimiter nor the end of the line",
        file=path,
        line=place if opened_at is None else line_at(path, opened_at),
        hint=_QUOTES,
    )


def unclosed(path: str, start: int, dialect: Dialect) -> DataError:
    """The error for a text that ends inside quotes, with the line of the quote that opened them.

    Raises DataError if an earlier quote is out of place: that may be why.
    """
    inside, opening = False, start
    for offset, before, text in chunks(path, start, None, dialect, first=True):
        found = runs(text, dialect, inside=inside, before=before)
        check_closing(Block(path, offset, text), found, dialect, start, opening)
        opened_at = found.opened_at()
        opening = opening if opened_at is None else offset + opened_at
        inside = found.inside_at_end
    return DataError(
        f"a quote ({dialect.quote}) opens {_field(path, start, opening, dialect)} here and never closes",
        file=path,
        line=line_at(path, opening),
        hint=_QUOTES,
    )


def _field(path: str, start: int, opening: int, dialect: Dialect) -> str:
    """Which field of its record the quote at `opening` opens, in words. A record starts at `start`, before it."""
    record, inside = start, False
    for offset, before, text in chunks(path, start, opening, dialect, first=True):
        ends = record_ends(text, dialect, inside=inside, before=before)
        record = offset + int(ends[-1]) if len(ends) else record
        inside = ends_inside(text, dialect, inside=inside, before=before)
    with opened(path) as stream:
        stream.seek(record)
        return f"field {fields(read_fully(stream, opening - record), dialect)}"


def _next_size(segment: Segment, read: int, size: int) -> int:
    return size if segment.end is None else min(size, segment.end - read)


def _too_long(path: str, offset: int) -> DataError:
    return DataError(
        f"a record starts here that is longer than {LARGEST_RECORD >> 20} MiB",
        file=path,
        line=line_at(path, offset),
        hint="Is a quote left open in it? Lines must end in LF or CRLF",
    )
