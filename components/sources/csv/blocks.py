"""Segments of delimited files, read in blocks of whole records; and errors for quotes that are out of place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from headrace.common.errors import DataError
from headrace.components.examples.parts import room
from headrace.components.examples.skips import Skips
from headrace.components.sources.csv.quotes import (
    Dialect,
    QuoteRuns,
    count_fields,
    ends_in_quotes,
    last_record_end,
    quote_runs,
    record_ends,
)
from headrace.components.sources.streams import (
    CHUNK,
    is_truncated,
    line_at,
    open_for,
    open_stream,
    read_fully,
    truncation_error,
)

LARGEST_RECORD = 1 << 26
"""Bytes. A longer record is taken for a quote that was left open."""


@dataclass(frozen=True)
class Segment:
    """Whole records of a file, between two offsets of its unpacked text. `end` is None for the end of the file."""

    path: str
    start: int
    end: int | None = None


@dataclass(frozen=True)
class Block:
    """Some whole records. `offset`: where they start in the unpacked text of the file."""

    path: str
    offset: int
    text: bytes


def blocks(segment: Segment, dialect: Dialect, skips: Skips | None = None, *, columns: int = 1) -> Iterator[Block]:
    """The segment in blocks of about CHUNK bytes, or more for very many columns, so that memory is bounded.

    Raises DataError for a quote that is out of place.

    skips: counts the last record of a truncated gzip file; None: it is an error.
    """
    size = room(CHUNK, columns)
    rest, offset, truncated = b"", segment.start, False
    with open_for(segment.path, skips) as stream:
        stream.seek(segment.start)
        while text := read_fully(stream, _next_size(segment, offset + len(rest), size)):
            text = rest + text
            found = quote_runs(text, dialect) if dialect.quote.encode() in text else None
            if found is not None:
                check_closing_quotes(Block(segment.path, offset, text), found, dialect)
            end = last_record_end(text, found)
            if end:
                yield Block(segment.path, offset, text[:end])
            elif len(text) > LARGEST_RECORD:
                raise _too_long(segment.path, offset)
            rest, offset = text[end:], offset + end
        truncated = skips is not None and is_truncated(stream)
    if skips is not None and truncated:
        skips.add(partial(truncation_error, segment.path, offset))
        return
    if ends_in_quotes(rest, dialect):
        raise unclosed_quote(segment.path, segment.start, dialect)
    if rest:
        yield Block(segment.path, offset, rest)


def chunks(
    path: str, start: int, end: int | None, dialect: Dialect, *, first: bool = False
) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, byte before, chunk) for the text between two arbitrary offsets.

    No run of quotes is split: a run across `start` is left out, and a run across `end` is included to its end. No line
    is split if lines may be comments; `start` and `end` are then the starts of lines, or within a record.

    first: a record starts at `start`, even if the byte before it belongs to a byte order mark.
    """
    quote = dialect.quote.encode()
    with open_stream(path) as stream:
        stream.seek(start if first else start - 1)
        before = b"\n" if first else read_fully(stream, 1)
        offset, rest, whole = start, b"", before != quote
        while text := read_fully(stream, min(CHUNK, end - offset - len(rest)) if end is not None else CHUNK):
            text = rest + text
            if not whole:
                left = text.lstrip(quote)
                offset, before, whole = offset + len(text) - len(left), quote, bool(left)
                text = left
            body = text.rstrip(quote) if dialect.comment is None else text[: text.rfind(b"\n") + 1]
            rest = text[len(body) :]
            if body:
                yield offset, before[0], body
                offset, before = offset + len(body), body[-1:]
        while rest and rest.endswith(quote) and (more := stream.read(1)) == quote:
            rest += more
    if rest:
        yield offset, before[0], rest


def check_closing_quotes(
    block: Block, found: QuoteRuns, dialect: Dialect, start: int | None = None, opened_before: int | None = None
) -> None:
    """Raise DataError if a quoted field continues after its closing quote.

    Args:
        block: the text.
        found: the runs of quotes in the block.
        dialect: the delimiter and the quote.
        start: the offset of a record no later than the block; None: the start of the block.
        opened_before: the offset of the quote that opened the field which the block starts in, if there is one.
    """
    path, offset, text = block.path, block.offset, block.text
    bad = found.bad_close(text, dialect)
    if bad is None:
        return
    closing, opening = int(found.ends[bad]), found.opened_at(bad)
    opened_at = offset + opening if opening is not None else opened_before
    field = "a field" if opened_at is None else _field(path, offset if start is None else start, opened_at, dialect)
    after = text[closing : closing + 20].splitlines()[0].decode(errors="replace")
    closing_line = line_at(path, offset + closing)
    raise DataError(
        f"a quote ({dialect.quote}) opens {field} here; the quote that closes it, on line {closing_line}, is followed"
        f" by {after!r}, which is neither a delimiter nor the end of the line",
        file=path,
        line=closing_line if opened_at is None else line_at(path, opened_at),
        hint=_quotes_hint(dialect),
    )


def unclosed_quote(path: str, start: int, dialect: Dialect) -> DataError:
    """The error for a text that ends inside quotes, with the line of the opening quote.

    Raises DataError if an earlier quote is out of place, which may be the cause.
    """
    inside, opening = False, start
    for offset, before, text in chunks(path, start, None, dialect, first=True):
        found = quote_runs(text, dialect, inside=inside, before=before)
        check_closing_quotes(Block(path, offset, text), found, dialect, start, opening)
        opened_at = found.opened_at()
        opening = opening if opened_at is None else offset + opened_at
        inside = found.inside_at_end
    return DataError(
        f"a quote ({dialect.quote}) opens {_field(path, start, opening, dialect)} here and never closes",
        file=path,
        line=line_at(path, opening),
        hint=_quotes_hint(dialect),
    )


def _quotes_hint(dialect: Dialect) -> str:
    return (
        "Close the field where it ends, and double the quotes that belong to its text. If the data uses another quote"
        f" character, set `{dialect.section}.quote` to it; if it uses none, to a character that does not occur"
    )


def _field(path: str, start: int, opening: int, dialect: Dialect) -> str:
    """Describe which field of its record the quote at `opening` opens. A record starts at `start`, before it."""
    record, inside = start, False
    for offset, before, text in chunks(path, start, opening, dialect, first=True):
        ends = record_ends(text, dialect, inside=inside, before=before)
        record = offset + int(ends[-1]) if len(ends) else record
        inside = ends_in_quotes(text, dialect, inside=inside, before=before)
    with open_stream(path) as stream:
        stream.seek(record)
        return f"field {count_fields(read_fully(stream, opening - record), dialect)}"


def _next_size(segment: Segment, read: int, size: int) -> int:
    return size if segment.end is None else min(size, segment.end - read)


def _too_long(path: str, offset: int) -> DataError:
    return DataError(
        f"the record that starts here is longer than {LARGEST_RECORD >> 20} MiB",
        file=path,
        line=line_at(path, offset),
        hint="Is one of its quotes left open? Lines must end in LF or CRLF",
    )
