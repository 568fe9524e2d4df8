"""A block of records to columns, by pyarrow's CSV reader; and what kinds of values the columns of a block hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from headrace.components.example_gen.delimited.quotes import NEWLINE, RETURN, Dialect, is_any
from headrace.components.example_gen.stacks import Stack, stacks_or_columns
from headrace.components.example_gen.types import ARROW, Kind, kind_of

CODE = r"^\s*[+-]?0[0-9xX]"
"""Texts that a number reader takes, losing what makes them codes: leading zeros, hexadecimal digits."""

LONG = r"^\s*[+-]?[0-9]{19,}\s*$"
"""Integers that may be beyond int64."""


@dataclass(frozen=True)
class Format:
    """How a block's text is to be read."""

    columns: tuple[str, ...]
    dialect: Dialect
    null_values: tuple[str, ...]
    chosen: tuple[str, ...]
    """The columns that are read, in the order of `columns`."""

    def quotes_a_null(self, text: bytes) -> bool:
        """Whether a text that means "missing" stands in quotes somewhere (a quoted empty text is missing anyhow)."""
        quote = self.dialect.quote
        return quote.encode() in text and any(
            f"{quote}{null}{quote}".encode() in text for null in self.null_values if null
        )


def parse(text: bytes, how: Format, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    """The records of a block as columns of the given kinds; raises pa.ArrowInvalid."""
    batch = _read(text, how, {name: ARROW[kinds[name]] for name in how.chosen})
    strings = [name for name in how.chosen if kinds[name] == "string"]
    if strings and how.quotes_a_null(text):
        kept = _strings(text, how, strings)
        columns = {**dict(zip(how.chosen, batch.columns, strict=True)), **dict(zip(strings, kept.columns, strict=True))}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return batch


def infer(
    text: bytes, how: Format, declared: Mapping[str, Kind], expected: Mapping[str, Kind]
) -> tuple[pa.RecordBatch, dict[str, Kind]]:
    """The records of a block as columns, and the kinds of these, which take all its values.

    `declared`: kinds that are not guessed; raises pa.ArrowInvalid if a value does not fit. `expected`: the kinds of the
    blocks before, which are tried first, because reading is three times as fast as guessing.
    """
    batch = _guess(text, how, declared, expected)
    types = dict(zip(batch.schema.names, batch.schema.types, strict=True))
    kinds = {name: declared.get(name) or kind_of(types[name]) for name in how.chosen}
    open_kinds = {name: kind for name, kind in kinds.items() if name not in declared and kind != "string"}
    doubtful = _doubtful(text, how, batch, open_kinds)
    if doubtful:
        texts = _strings(text, how, doubtful)
        kinds.update({name: "string" for name in doubtful if _holds_code(texts.column(name), kinds[name])})
    exact = all(types[name] == ARROW[kind] for name, kind in kinds.items())
    return (batch if exact and not how.quotes_a_null(text) else parse(text, how, kinds)), kinds


def _guess(text: bytes, how: Format, declared: Mapping[str, Kind], expected: Mapping[str, Kind]) -> pa.RecordBatch:
    if expected:
        try:
            return _read(text, how, {name: ARROW[kind] for name, kind in {**expected, **declared}.items()})
        except pa.ArrowInvalid:
            expected = {name: kind for name, kind in expected.items() if kind == "string"}
    batch = _read(text, how, {name: ARROW[kind] for name, kind in {**expected, **declared}.items()})
    broken = {field.name: pa.string() for field in batch.schema if field.type == pa.binary()}
    if broken:
        _read(text, how, broken)  # not UTF-8: reading it as a string raises
    return batch


def _doubtful(text: bytes, how: Format, batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> list[str]:
    """The columns whose texts have to be looked at, because the values alone do not tell."""
    all_stacks = list(stacks_or_columns(batch))
    beyond = {batch.schema.names[place] for stack in all_stacks for place in _beyond_int64(stack)}
    doubtful = {name for name in beyond if kinds.get(name) == "float"}
    strings = [stack.values for stack in all_stacks if stack.values.type == pa.string()]
    if _codes_at_field_starts(text, how.dialect) > sum(map(_plain_codes, strings)):
        doubtful |= {name for name, kind in kinds.items() if kind in {"int", "float"}}
    if how.quotes_a_null(text):
        doubtful |= {name for name, kind in kinds.items() if kind == "missing"}
    return sorted(doubtful)


def _holds_code(texts: pa.Array, kind: Kind) -> bool:
    if kind == "missing":
        return texts.null_count < len(texts)
    return bool(pc.any(pc.match_substring_regex(texts, f"{CODE}|{LONG}" if kind == "float" else CODE)).as_py())


def _beyond_int64(stack: Stack) -> list[int]:
    """The places of the columns of floats that hold a number beyond int64."""
    if not pa.types.is_float64(stack.values.type):
        return []
    edges = pc.min_max(stack.values)  # of all columns first, as few hold such numbers
    if edges["min"].as_py() is None or -(2.0**63) < edges["min"].as_py() <= edges["max"].as_py() < 2.0**63:
        return []
    beyond = pc.greater_equal(pc.abs(stack.values), pa.scalar(2.0**63)).fill_null(False)
    found: list[int] = stack.places[stack.per_column(np.asarray(beyond)).any(axis=1)].tolist()
    return found


def _codes_at_field_starts(text: bytes, dialect: Dialect) -> int:
    """How often a zero and a digit (or x), perhaps signed, stand at the start of what may be a field."""
    letters = np.frombuffer(b"\n" + text, np.uint8)
    starts = (NEWLINE, RETURN, ord(dialect.delimiter), ord(dialect.quote))
    may_start = is_any(letters[:-2], (*starts, *b"+- "))
    may_start &= _starts_code(letters[1:-1], letters[2:])
    zeros = np.flatnonzero(may_start) + 1
    if not len(zeros):
        return 0
    before = zeros - 1
    before -= is_any(letters[before], b"+-")
    while np.any(spaces := letters[before] == ord(" ")):
        before -= spaces
    return int(is_any(letters[before], starts).sum())


def _plain_codes(column: pa.Array) -> int:
    """How many texts of a string column start with a zero and a digit (or x)."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    starts = offsets[:-1][np.diff(offsets) > 1]
    if not len(starts):
        return 0
    letters = np.frombuffer(column.buffers()[2], np.uint8)
    return int(_starts_code(letters[starts], letters[starts + 1]).sum())


def _starts_code(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    found: np.ndarray = second - np.uint8(ord("0")) < 10
    found |= (second | 32) == ord("x")
    found &= first == ord("0")
    return found


def _strings(text: bytes, how: Format, columns: Sequence[str]) -> pa.RecordBatch:
    """Some columns as strings: null where the text is empty, or means "missing" and is not quoted."""
    batch = _read(text, how, {name: pa.string() for name in columns}, only=columns, quoted_nulls=False)
    values = [pc.if_else(pc.equal(column, ""), None, column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(values, names=list(columns))


def _read(
    text: bytes,
    how: Format,
    types: Mapping[str, pa.DataType],
    *,
    only: Sequence[str] | None = None,
    quoted_nulls: bool = True,
) -> pa.RecordBatch:
    table = pyarrow.csv.read_csv(
        pa.BufferReader(text),
        read_options=pyarrow.csv.ReadOptions(
            column_names=how.columns, block_size=len(text) + 1, use_threads=False, encoding="utf8"
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=how.dialect.delimiter,
            quote_char=how.dialect.quote,
            newlines_in_values=how.dialect.quote.encode() in text,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            null_values=["", *how.null_values],
            strings_can_be_null=True,
            quoted_strings_can_be_null=quoted_nulls,
            true_values=[],
            false_values=[],
            include_columns=only or how.chosen,
        ),
    )
    return table.combine_chunks().to_batches()[0]
