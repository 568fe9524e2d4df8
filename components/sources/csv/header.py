"""The header line of a delimited file, and where its rows start."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.common.errors import DataError, HeaderError
from headrace.common.names import join_names
from headrace.components.sources.csv.blocks import Block, check_closing_quotes
from headrace.components.sources.csv.quotes import Dialect, quote_runs, record_ends, without_comments
from headrace.components.sources.streams import is_truncated, line_at, open_truncated, read_fully
from headrace.configs.schema.sources.csv import USUAL_ENCODING

LARGEST_HEADER = 1 << 24
"""The number of bytes within which the header must end."""

_RENAME = ("duplicate_names", "rename")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class CsvHeader:
    """The names of the columns.

    rows_at: the offset of the first row in the unpacked text; renamed: the new name and the name in the file of each
    column whose name is empty or occurs earlier in the header.
    """

    columns: tuple[str, ...]
    rows_at: int
    renamed: tuple[tuple[str, str], ...] = ()


def read_header(path: str, dialect: Dialect, encoding: str = "utf-8", *, rename: bool = False) -> CsvHeader:
    """The header of a file that has one. Raises DataError if it cannot name columns.

    rename: give columns without a name, and those whose name occurs earlier, a name of their own.
    """
    start, text = _first_bytes(path, dialect)
    blank = len(text) - len(text.lstrip(b"\r\n"))
    ends = record_ends(text[blank:], dialect)
    end = blank + int(ends[0]) if len(ends) else len(text)
    line = line_at(path, start + blank, open_truncated) if dialect.comment else 1 + text[:blank].count(b"\n")
    header = text[blank:end]
    check_closing_quotes(Block(path, start + blank, header), quote_runs(header, dialect), dialect)
    names = _names(path, line, header, dialect, encoding)
    _check(path, line, names, dialect.section, rename=rename)
    columns = distinct_names(names)
    renamed = tuple((column, name) for column, name in zip(columns, names, strict=True) if column != name)
    return CsvHeader(columns, start + end, renamed)


def encoding_hint(dialect: Dialect) -> str:
    """What to do about text that is not UTF-8."""
    usual = f"such as {USUAL_ENCODING} for Western Europe"
    return f"Set `{dialect.section}.encoding`, {usual}, or convert the file to UTF-8"


def distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, of which each that occurs earlier gets its number, or the next one that makes a new name.

    A column without a name is called `unnamed_`, with its position from 1.
    """
    taken, numbers = set(filter(str.strip, names)), dict[str, int]()
    seen, columns = set[str](), list[str]()
    for position, name in enumerate(names, 1):
        is_first = bool(name.strip()) and name not in seen
        seen.add(name)
        column = base = name if name.strip() else f"unnamed_{position}"
        numbers.setdefault(base, 1)
        while column in taken and not is_first:
            numbers[base] += 1
            column = f"{base}_{numbers[base]}"
        taken.add(column)
        columns.append(column)
    return tuple(columns)


def rows_start(path: str) -> int:
    """The offset of the first row in a file without a header: after the byte order mark, if there is one."""
    with open_truncated(path) as stream:
        return _after_mark(path, read_fully(stream, 4))


def same_header(path: str, header: CsvHeader, first_path: str, first: CsvHeader) -> None:
    """Raise DataError if the header of a file differs from that of the first file."""
    if header.columns == first.columns:
        return
    pairs = zip(header.columns, first.columns, strict=False)
    differing = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
    what = f"has {len(header.columns)} columns, but {first_path} has {len(first.columns)}"
    if differing is not None:
        ours, theirs = header.columns[differing], first.columns[differing]
        what = f"column {differing + 1} is {ours!r}, but {theirs!r} in {first_path}"
    raise DataError(f"the header differs: {what}", file=path, line=1, hint="All files need the same header line")


def _first_bytes(path: str, dialect: Dialect) -> tuple[int, bytes]:
    """The offset after the byte order mark, and enough text after it to contain the header, without comments."""
    size = 1 << 16
    while True:
        with open_truncated(path) as stream:
            text = read_fully(stream, size)
            truncated = is_truncated(stream)
        start = _after_mark(path, text)
        body = without_comments(text[start:], dialect)
        if truncated and not len(record_ends(body.lstrip(b"\r\n"), dialect)):
            raise DataError("the gzip file is truncated in the header line", file=path, hint="Copy the file again")
        if not body.strip(b"\r\n"):
            if len(text) < size:
                hint = f"Remove it, or exclude it from `{dialect.section}.path`"
                raise DataError("the file is empty", file=path, hint=hint)
        elif len(text) < size or len(record_ends(body.lstrip(b"\r\n"), dialect)):
            return start, body
        if size > LARGEST_HEADER:
            raise DataError("the header line does not end", file=path, line=1, hint="Is one of its quotes left open?")
        size *= 8


def _after_mark(path: str, text: bytes) -> int:
    if text.startswith(_UTF_16):
        raise DataError("is UTF-16, not UTF-8", file=path, hint=f"Convert it: iconv -f UTF-16 -t UTF-8 {path}")
    return len(codecs.BOM_UTF8) if text.startswith(codecs.BOM_UTF8) else 0


def _names(path: str, line: int, text: bytes, dialect: Dialect, encoding: str) -> list[str]:
    if b"\r" in text.rstrip(b"\r\n") and b"\n" not in text:
        raise DataError(
            "the lines end in bare carriage returns", file=path, line=line, hint=f"Convert it: mac2unix {path}"
        )
    if b"\0" in text:
        raise DataError("the header contains zero bytes: is it UTF-8 text?", file=path, line=line)
    try:
        decoded = text.decode(encoding)
    except UnicodeDecodeError as error:
        what = f"the header is not {encoding.upper()}: {error.reason}"
        hint, guess = encoding_hint(dialect), ("encoding", USUAL_ENCODING)
        raise HeaderError(what, file=path, line=line, hint=hint, setting=guess) from error
    return next(csv.reader(io.StringIO(decoded, newline=""), delimiter=dialect.delimiter, quotechar=dialect.quote))


def _check(path: str, line: int, names: list[str], section: str, *, rename: bool) -> None:
    found: dict[str, list[int]] = {}
    for number, name in enumerate(names, 1):
        if not name.strip() and not rename:
            what, new = f"column {number} of the header has no name", distinct_names(names)[number - 1]
            hint = f"Set `{section}.duplicate_names: rename`, which reads it as {new!r}, or edit the header"
            raise HeaderError(what, file=path, line=line, hint=hint, setting=_RENAME)
        found.setdefault(name, []).append(number)
    repeated = {name: numbers for name, numbers in found.items() if len(numbers) > 1}
    if not repeated or rename:
        return
    places = {name: f"(columns {join_names(map(str, numbers), 10)})" for name, numbers in repeated.items()}
    shown = join_names((f"{name!r} {place}" for name, place in places.items()), 10)
    new = next(column for column, name in zip(distinct_names(names), names, strict=True) if column != name)
    only = next(iter(repeated)) if len(repeated) == 1 else None
    raise HeaderError(
        f"names occur more than once in the header: {shown}"
        if only is None
        else f"the name occurs {_often(len(repeated[only]))} in the header {places[only]}",
        file=path,
        line=line,
        column=only,
        hint=f"Set `{section}.duplicate_names: rename`, which reads the second one as {new!r}, or edit the header",
        setting=_RENAME,
    )


def _often(times: int) -> str:
    return "twice" if times == 2 else f"{times} times"
