"""A block of records to columns, by pyarrow's CSV reader; and what kinds of values the columns of a block hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from components.example_gen.delimited.quotes import NEWLINE, RETURN, Dialect
from components.example_gen.types import ARROW, Kind, kind_of

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

    def quotes_a_null(self, text: bytes) -> bool:
        """Whether a text that means "missing" stands in quotes somewhere (a quoted empty text is missing anyhow)."""
        quote = self.dialect.quote
        return quote.encode() in text and any(
            f"{quote}{null}{quote}".encode() in text for null in self.null_values if null
        )


def parse(text: bytes, how: Format, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    """The records of a block as columns of the given kinds; raises pa.ArrowInvalid."""
    batch = _read(text, how, {name: ARROW[kinds[name]] for name in how.columns})
    strings = [name for name in how.columns if kinds[name] == "string"]
    if strings and how.quotes_a_null(text):
        kept = _strings(text, how, strings)
        for name in strings:
            batch = batch.set_column(batch.schema.get_field_index(name), name, kept.column(name))
    return batch


def infer(text: bytes, how: Format, known: Mapping[str, Kind]) -> tuple[int, dict[str, Kind]]:
    """The number of records in a block, and the kinds of its columns.

    `known`: columns whose kind is declared, or already string; raises pa.ArrowInvalid if a value does not fit it.
    """
    batch = _read(text, how, {name: ARROW[kind] for name, kind in known.items()})
    kinds = {name: known.get(name) or kind_of(batch.column(name).type) for name in how.columns}
    broken = {name: pa.string() for name in how.columns if batch.column(name).type == pa.binary()}
    if broken:
        _read(text, how, broken)  # not UTF-8: reading it as a string raises
    open_kinds = {name: kind for name, kind in kinds.items() if name not in known}
    doubtful = _doubtful(text, how, batch, open_kinds)
    if doubtful:
        texts = _strings(text, how, doubtful)
        kinds.update({name: "string" for name in doubtful if _holds_code(texts.column(name), kinds[name])})
    return batch.num_rows, kinds


def _doubtful(text: bytes, how: Format, batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> list[str]:
    """The columns whose texts have to be looked at, because the values alone do not tell."""
    doubtful = {name for name, kind in kinds.items() if kind == "float" and _beyond_int64(batch.column(name))}
    if _may_hold_codes(text, how.dialect):
        doubtful |= {name for name, kind in kinds.items() if kind in {"int", "float"}}
    if how.quotes_a_null(text):
        doubtful |= {name for name, kind in kinds.items() if kind == "missing"}
    return sorted(doubtful)


def _holds_code(texts: pa.Array, kind: Kind) -> bool:
    if kind == "missing":
        return texts.null_count < len(texts)
    return bool(pc.any(pc.match_substring_regex(texts, f"{CODE}|{LONG}" if kind == "float" else CODE)).as_py())


def _beyond_int64(column: pa.Array) -> bool:
    return bool(pc.any(pc.greater_equal(pc.abs(column), pa.scalar(2.0**63))).as_py())


def _may_hold_codes(text: bytes, dialect: Dialect) -> bool:
    """Whether a zero and a digit (or x) stand at the start of a field: a quick look at the bytes."""
    letters = np.frombuffer(text, np.uint8)
    after = letters[1:]
    zeros = np.flatnonzero((letters[:-1] == ord("0")) & ((after - np.uint8(48) < 10) | ((after | 32) == ord("x"))))
    starts = (NEWLINE, RETURN, ord(" "), ord(dialect.delimiter), ord(dialect.quote))
    before = letters[zeros - 1]
    signed = np.isin(before, (ord("+"), ord("-")))
    before = np.where(signed, letters[zeros - 2], before)
    return bool(np.any(np.isin(before, starts) | (zeros == 0) | (signed & (zeros == 1))))


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
            include_columns=only,
        ),
    )
    return table.combine_chunks().to_batches()[0]
