"""Which records of a block pyarrow's reader rejects, with the line, the column and the reason of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from headrace.common.errors import BadRecordError
from headrace.common.figures import plural
from headrace.components.examples.skips import Skips
from headrace.components.sources.csv.blocks import Block
from headrace.components.sources.csv.header import encoding_hint
from headrace.components.sources.csv.parse import CsvFormat
from headrace.components.sources.csv.quotes import record_ends
from headrace.components.sources.csv.thousands import mark_of
from headrace.components.sources.streams import line_at, open_truncated

_MARKS = frozenset("#%!")
"""What comments mostly start with."""
_CONVERSION = re.compile(r"In CSV column #(\d+): .*CSV conversion error to (\w+): (.*)", re.DOTALL)
_FIELDS = re.compile(r"Expected (\d+) columns, got (\d+)")
_NUMBERS = {"int64": "an int", "double": "a float"}


Parse = Callable[[bytes], object]
"""Parses whole records. Raises pa.ArrowInvalid."""


def first_error(block: Block, csv_format: CsvFormat, parse: Parse, error: pa.ArrowInvalid) -> BadRecordError:
    """The error for the first record of a block that `parse` rejects. `error`: what it raised for the block."""
    ends = _record_ends(block.text, csv_format)
    bad = _first_bad(block.text, ends, parse)
    return _record_error(_record(block, ends, bad), csv_format, parse, error)


def without_bad_records(block: Block, csv_format: CsvFormat, parse: Parse, skips: Skips) -> bytes:
    """The text of a block without the records that `parse` rejects, which are found by halving what it rejects."""
    ends = _record_ends(block.text, csv_format)
    good: list[bytes] = []
    ranges = [(0, len(ends) - 1)]
    while ranges:
        first, last = ranges.pop()
        text = block.text[ends[first] : ends[last]]
        error = _rejection(parse, text)
        if error is None:
            good.append(text)
        elif last - first == 1:
            skips.add(partial(_record_error, _record(block, ends, first), csv_format, parse, error))
        else:
            middle = (first + last) // 2
            ranges += [(middle, last), (first, middle)]
    return b"".join(good)


def _record_ends(text: bytes, csv_format: CsvFormat) -> list[int]:
    """0, and the end of each record."""
    ends = [0, *record_ends(text, csv_format.dialect).tolist()]
    return ends if ends[-1] == len(text) else [*ends, len(text)]


def _record(block: Block, ends: list[int], number: int) -> Block:
    return Block(block.path, block.offset + ends[number], block.text[ends[number] : ends[number + 1]])


def _first_bad(text: bytes, ends: list[int], parse: Parse) -> int:
    """The number of the first rejected record: a binary search, as only the texts that end before it parse."""
    good, bad = 0, len(ends) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if _rejection(parse, text[: ends[middle]]) is None:
            good = middle
        else:
            bad = middle
    return good


def _rejection(parse: Parse, text: bytes) -> pa.ArrowInvalid | None:
    if not text.strip(b"\r\n"):
        return None
    try:
        parse(text)
    except pa.ArrowInvalid as error:
        return error
    return None


def _record_error(record: Block, csv_format: CsvFormat, parse: Parse, error: pa.ArrowInvalid) -> BadRecordError:
    line = line_at(record.path, record.offset, open_truncated)
    message = str(_rejection(parse, record.text) or error)
    if conversion := _CONVERSION.search(message):
        return _conversion_error(conversion, record.path, line, csv_format)
    fields = _FIELDS.search(message)
    if "is not in" in message and not fields:
        return BadRecordError(message, file=record.path, line=line, hint=encoding_hint(csv_format.dialect))
    if not fields:
        return BadRecordError(f"the row cannot be read: {message}", file=record.path, line=line)
    expected, actual = map(int, fields.groups())
    columns, section = csv_format.columns, csv_format.dialect.section
    hint = (
        "Correct the row: a field that contains the delimiter or a line break must be quoted. "
        f"The delimiter is {csv_format.dialect.delimiter!r} (`{section}.delimiter`)"
    )
    starts = {"it": record.text[:1].decode(errors="replace")}
    if actual > expected:
        starts["the line with the names of the columns"] = columns[0][:1]
    if csv_format.dialect.comment is None and (which := next((one for one in starts if starts[one] in _MARKS), None)):
        hint = f"If {which} is a comment, set `{section}.comment: '{starts[which]}'`"
    end = f"ends before {columns[actual]!r}" if actual < expected else f"continues after {columns[-1]!r}"
    counts = f"{plural(actual, 'field')}, but there {_are_columns(expected)}"
    return BadRecordError(
        f"the row has {counts}; it {end}: {_shown(record.text, csv_format.encoding)}",
        file=record.path,
        line=line,
        hint=hint,
    )


def _are_columns(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {plural(count, 'column')}"


def _conversion_error(found: re.Match[str], path: str, line: int, csv_format: CsvFormat) -> BadRecordError:
    column, arrow, detail = csv_format.columns[int(found[1])], found[2], found[3]
    if "UTF8" in detail:
        hint = encoding_hint(csv_format.dialect)
        return BadRecordError("the text is not UTF-8", file=path, line=line, column=column, hint=hint)
    section = csv_format.dialect.section
    value = detail.removeprefix("invalid value ")
    mark = None if csv_format.thousands else mark_of(value.strip("'"), csv_format.decimal)
    if mark is not None:
        hint = f"Set `{section}.thousands: {json.dumps(mark)}` to read groups of digits as one number"
        return BadRecordError(
            f"{value} is not {_NUMBERS.get(arrow, arrow)}", file=path, line=line, column=column, hint=hint
        )
    return BadRecordError(
        f"{value} is not {_NUMBERS.get(arrow, arrow)}",
        file=path,
        line=line,
        column=column,
        hint=f"Correct the value, or list it in `{section}.null_values` if it stands for a missing value",
        data_hint="set `data.types.{column}: string` if the column is not used as a number",
    )


def _shown(record: bytes, encoding: str) -> str:
    text = record.rstrip(b"\r\n").decode(encoding, errors="replace")
    return repr(text if len(text) <= 80 else text[:77] + "...")
