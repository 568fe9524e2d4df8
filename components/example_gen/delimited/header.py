"""The header line of a delimited file, and where its rows start."""

from __future__ import annotations

import codecs
import csv
import difflib
import io
from dataclasses import dataclass

from headrace.components.example_gen.delimited.blocks import Block, check_closing
from headrace.components.example_gen.delimited.files import read_fully
from headrace.components.example_gen.delimited.lenient import is_cut_off, opened_to_the_end
from headrace.components.example_gen.delimited.quotes import Dialect, record_ends, runs
from headrace.configs.errors import DataError

LARGEST = 1 << 24
"""Bytes in which the header must end."""

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Header:
    """The names of the columns, and the offset in the (unpacked) text where the first row starts."""

    columns: tuple[str, ...]
    rows_at: int


def read_header(path: str, dialect: Dialect) -> Header:
    """The header of a file that has one. Raises DataError if it is unfit to name columns."""
    start, text = _first_bytes(path, dialect)
    blank = len(text) - len(text.lstrip(b"\r\n"))
    ends = record_ends(text[blank:], dialect)
    end = blank + int(ends[0]) if len(ends) else len(text)
    line = 1 + text[:blank].count(b"\n")
    own = text[blank:end]
    check_closing(Block(path, start + blank, own), runs(own, dialect), dialect)
    names = _names(path, line, own, dialect)
    _check(path, line, names)
    return Header(tuple(names), start + end)


def rows_start(path: str) -> int:
    """Where the rows of a file without a header start: after the byte order mark, if there is one."""
    with opened_to_the_end(path) as stream:
        return _after_mark(path, read_fully(stream, 4))


def same_header(path: str, header: Header, first_path: str, first: Header) -> None:
    """Raise DataError if a file's header is not the first file's."""
    if header.columns == first.columns:
        return
    pairs = zip(header.columns, first.columns, strict=False)
    place = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
    what = f"has {len(header.columns)} columns, but {first_path} has {len(first.columns)}"
    if place is not None:
        what = f"column {place + 1} is {header.columns[place]!r}, but {first.columns[place]!r} in {first_path}"
    raise DataError(f"the header differs: {what}", file=path, line=1, hint="All files need the same header line")


def nearest(name: str, columns: tuple[str, ...]) -> str:
    """A hint that names the columns nearest to a mistyped one."""
    near = difflib.get_close_matches(name, columns, n=3)
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    return f"The columns are {', '.join(columns[:20])}{', ...' if len(columns) > 20 else ''}"


def _first_bytes(path: str, dialect: Dialect) -> tuple[int, bytes]:
    """The offset after the byte order mark, and enough text after it to hold the header."""
    size = 1 << 16
    while True:
        with opened_to_the_end(path) as stream:
            text = read_fully(stream, size)
            cut_off = is_cut_off(stream)
        start = _after_mark(path, text)
        body = text[start:]
        if cut_off and not len(record_ends(body.lstrip(b"\r\n"), dialect)):
            what = "the gzip data ends too early, in the header line: the file was cut off"
            raise DataError(what, file=path, hint="Copy the file again")
        if not body.strip(b"\r\n"):
            if len(text) < size:
                raise DataError("the file is empty", file=path, hint="Remove it, or leave it out of `data.source.path`")
        elif len(text) < size or len(record_ends(body.lstrip(b"\r\n"), dialect)):
            return start, body
        if size > LARGEST:
            raise DataError("the header line does not end", file=path, line=1, hint="Is a quote left open in it?")
        size *= 8


def _after_mark(path: str, text: bytes) -> int:
    if text.startswith(_UTF_16):
        raise DataError("is UTF-16, not UTF-8", file=path, hint=f"Convert it: iconv -f UTF-16 -t UTF-8 {path}")
    return len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0


def _names(path: str, line: int, text: bytes, dialect: Dialect) -> list[str]:
    if b"\r" in text.rstrip(b"\r\n") and b"\n" not in text:
        raise DataError(
            "the lines end in a carriage return alone", file=path, line=line, hint=f"Convert it: mac2unix {path}"
        )
    if b"\0" in text:
        raise DataError("the header holds zero bytes: is it text, in UTF-8?", file=path, line=line)
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"the header is not UTF-8: {error.reason}", file=path, line=line) from error
    return next(csv.reader(io.StringIO(decoded, newline=""), delimiter=dialect.delimiter, quotechar=dialect.quote))


def _check(path: str, line: int, names: list[str]) -> None:
    first: dict[str, int] = {}
    for place, name in enumerate(names):
        if not name.strip():
            raise DataError(f"column {place + 1} of the header has no name", file=path, line=line)
        if first.setdefault(name, place) < place:
            raise DataError(
                f"the name stands in the header twice (columns {first[name] + 1} and {place + 1})",
                file=path,
                line=line,
                column=name,
            )
