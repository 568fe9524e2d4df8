"""The place of what pyarrow's reader refused: which record is the first one, its line, its column."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from headrace.components.example_gen.delimited.blocks import Block
from headrace.components.example_gen.delimited.files import line_at
from headrace.components.example_gen.delimited.lenient import opened_to_the_end
from headrace.components.example_gen.delimited.parse import Format
from headrace.components.example_gen.delimited.quotes import record_ends
from headrace.components.example_gen.skips import Skips
from headrace.configs.errors import DataError

_CONVERSION = re.compile(r"In CSV column #(\d+): .*CSV conversion error to (\w+): (.*)", re.DOTALL)
_FIELDS = re.compile(r"Expected (\d+) columns, got (\d+)")
_NUMBERS = {"int64": "an int", "double": "a float"}


def located(block: Block, how: Format, read: Callable[[bytes], object], error: pa.ArrowInvalid) -> DataError:
    """The DataError for a block that `read` refuses; calling `read` again finds the first record that it refuses."""
    ends = _record_ends(block.text, how)
    bad = _first_bad(block.text, ends, read)
    return _told(_record(block, ends, bad), how, read, error)


def without_bad(block: Block, how: Format, read: Callable[[bytes], object], skips: Skips) -> bytes:
    """The text of a block that `read` refuses, without the records that it refuses: by halving what is refused."""
    ends = _record_ends(block.text, how)
    kept: list[bytes] = []
    ranges = [(0, len(ends) - 1)]
    while ranges:
        first, last = ranges.pop()
        text = block.text[ends[first] : ends[last]]
        error = _refusal(read, text)
        if error is None:
            kept.append(text)
        elif last - first == 1:
            skips.add(partial(_told, _record(block, ends, first), how, read, error))
        else:
            middle = (first + last) // 2
            ranges += [(middle, last), (first, middle)]
    return b"".join(kept)


def _record_ends(text: bytes, how: Format) -> list[int]:
    """0, and where each record ends."""
    ends = [0, *record_ends(text, how.dialect).tolist()]
    return ends if ends[-1] == len(text) else [*ends, len(text)]


def _record(block: Block, ends: list[int], number: int) -> Block:
    return Block(block.path, block.offset + ends[number], block.text[ends[number] : ends[number + 1]])


def _told(record: Block, how: Format, read: Callable[[bytes], object], error: pa.ArrowInvalid) -> DataError:
    line = line_at(record.path, record.offset, opened_to_the_end)
    return _explained(_refusal(read, record.text) or error, record.path, line, how, record.text)


def _first_bad(text: bytes, ends: list[int], read: Callable[[bytes], object]) -> int:
    """The number of the first record that is refused: halving, as every longer text from the start is refused too."""
    good, bad = 0, len(ends) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if _refusal(read, text[: ends[middle]]) is None:
            good = middle
        else:
            bad = middle
    return good


def _refusal(read: Callable[[bytes], object], text: bytes) -> pa.ArrowInvalid | None:
    if not text.strip(b"\r\n"):
        return None
    try:
        read(text)
    except pa.ArrowInvalid as error:
        return error
    return None


def _explained(error: pa.ArrowInvalid, path: str, line: int, how: Format, record: bytes) -> DataError:
    conversion = _CONVERSION.search(str(error))
    if conversion:
        return _conversion(conversion, path, line, how)
    fields = _FIELDS.search(str(error))
    if not fields:
        return DataError(f"the row cannot be read: {error}", file=path, line=line)
    expected, got = map(int, fields.groups())
    end = f"ends before {how.columns[got]!r}" if got < expected else f"goes on after {how.columns[-1]!r}"
    fields_found = f"{got} field{'' if got == 1 else 's'}"
    columns = "is 1 column" if expected == 1 else f"are {expected} columns"
    return DataError(
        f"the row has {fields_found}, but there {columns}; it {end}: {_shown(record)}",
        file=path,
        line=line,
        hint="A field that holds the delimiter or a line break has to stand in quotes. "
        f"The delimiter is {how.dialect.delimiter!r} (`data.source.delimiter`)",
    )


def _conversion(found: re.Match[str], path: str, line: int, how: Format) -> DataError:
    column, arrow, detail = how.columns[int(found[1])], found[2], found[3]
    if "UTF8" in detail:
        hint = "Convert the file to UTF-8, for example: iconv -f LATIN1 -t UTF-8"
        return DataError("the text is not UTF-8", file=path, line=line, column=column, hint=hint)
    value = detail.removeprefix("invalid value ")
    return DataError(
        f"{value} is not {_NUMBERS.get(arrow, arrow)}",
        file=path,
        line=line,
        column=column,
        hint="Mend the value, list it in `data.source.null_values` if it means missing, "
        f"or, if the column is not used as a number, set `data.types.{column}: string`",
    )


def _shown(record: bytes) -> str:
    text = record.rstrip(b"\r\n").decode(errors="replace")
    return repr(text if len(text) <= 80 else text[:77] + "...")
