"""Blocks of records parsed by pyarrow's CSV reader, with the kinds of the columns given or inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from headrace.common.record_batches import in_one_batch
from headrace.components.examples.arrow_columns import ColumnStack, stacks_or_columns
from headrace.components.sources.csv.quotes import NEWLINE, RETURN, Dialect, is_any
from headrace.components.sources.csv.thousands import grouped_number, without_thousands
from headrace.components.sources.types import ARROW, Kind, kind_of

CODE = r"^\s*[+-]?0[0-9xX]"
"""Texts that would parse as numbers but lose what makes them codes: leading zeros, hexadecimal digits."""

UTF_8 = "utf-8"
ZERO = np.uint8(ord("0"))
AT_ONCE = 1 << 18
"""Letters of a block that are compared at once: they and the results fit into the processor's cache."""
LONG = r"^\s*[+-]?[0-9]{19,}\s*$"
"""Integers that may be beyond int64."""


@dataclass(frozen=True)
class CsvFormat:
    """How the text of a block is parsed. `selected`: the columns to read, in the order of `columns`."""

    columns: tuple[str, ...]
    dialect: Dialect
    null_values: tuple[str, ...]
    selected: tuple[str, ...]
    encoding: str = UTF_8
    decimal: str = "."
    thousands: str | None = None

    def to_utf_8(self, text: bytes) -> bytes:
        """The text, as the functions below take it. Raises pa.ArrowInvalid for a byte that stands for no character."""
        if self.encoding == UTF_8:
            return text
        try:
            return text.decode(self.encoding).encode()
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(f"the byte 0x{text[error.start]:02x} is not in {self.encoding}") from None

    def plain_numbers(self, text: bytes) -> bytes:
        """The text from which numbers can be read; `text` itself if it has no marks between groups of digits."""
        return text if self.thousands is None else without_thousands(text, self.dialect, self.thousands, self.decimal)

    @cached_property
    def nulls(self) -> list[str]:
        """The null values, also as `plain_numbers` leaves them."""
        mark = self.thousands
        numbers = (null for null in self.null_values if mark and grouped_number(null, mark, self.decimal))
        plain = (number.replace(mark or "", "") for number in numbers)
        return [*dict.fromkeys(("", *self.null_values, *plain))]

    def quotes_a_null(self, text: bytes) -> bool:
        """Whether a null value occurs in quotes. (The empty text is missing in quotes too.)"""
        quote = self.dialect.quote
        return quote.encode() in text and any(
            f"{quote}{null}{quote}".encode() in text for null in self.null_values if null
        )


def parse(text: bytes, csv_format: CsvFormat, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    """The records of a block as columns of the given kinds. Raises pa.ArrowInvalid."""
    plain = csv_format.plain_numbers(text)
    batch = _read_integers(plain, csv_format, {name: ARROW[kinds[name]] for name in csv_format.selected})
    return _with_texts(batch, text, csv_format, kinds) if plain is not text or csv_format.quotes_a_null(text) else batch


def infer(
    text: bytes, csv_format: CsvFormat, declared: Mapping[str, Kind], expected: Mapping[str, Kind]
) -> tuple[pa.RecordBatch, dict[str, Kind]]:
    """The records of a block as columns, and the narrowest kinds that hold their values.

    declared: kinds that are not inferred; raises pa.ArrowInvalid if a value does not fit. expected: the kinds of the
    earlier blocks, which are tried first because parsing is three times as fast as inferring.
    """
    plain = csv_format.plain_numbers(text)
    batch = _infer_types(plain, csv_format, declared, expected)
    types = dict(zip(batch.schema.names, batch.schema.types, strict=True))
    kinds = {name: declared.get(name) or kind_of(types[name]) for name in csv_format.selected}
    open_kinds = {name: kind for name, kind in kinds.items() if name not in declared and kind != "string"}
    doubtful = _doubtful(plain, csv_format, batch, open_kinds)
    if doubtful:
        texts = _texts(plain, csv_format, dict.fromkeys(doubtful, pa.string()))
        kinds.update({name: "string" for name in doubtful if _holds_code(texts.column(name), kinds[name])})
    exact = all(types[name] == ARROW[kind] for name, kind in kinds.items())
    if not exact:
        return parse(text, csv_format, kinds), kinds
    as_written = plain is text and not csv_format.quotes_a_null(text)
    return (batch if as_written else _with_texts(batch, text, csv_format, kinds)), kinds


def _with_texts(batch: pa.RecordBatch, text: bytes, csv_format: CsvFormat, kinds: Mapping[str, Kind]) -> pa.RecordBatch:
    """The batch with its columns of texts as the text has them: quoted null values and marks between digits stay."""
    names = [name for name in csv_format.selected if kinds[name] in {"string", "bytes"}]
    if not names:
        return batch
    types = {name: ARROW[kinds[name]] for name in names}
    columns = dict(zip(csv_format.selected, batch.columns, strict=True))
    columns |= dict(zip(names, _texts(text, csv_format, types).columns, strict=True))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _infer_types(
    text: bytes, csv_format: CsvFormat, declared: Mapping[str, Kind], expected: Mapping[str, Kind]
) -> pa.RecordBatch:
    integers = [name for name, kind in declared.items() if kind == "int"]
    if expected:
        try:
            types = {name: ARROW[kind] for name, kind in {**expected, **declared}.items()}
            return _read_integers(text, csv_format, types, integers)
        except pa.ArrowInvalid:
            expected = {name: kind for name, kind in expected.items() if kind == "string"}
    types = {name: ARROW[kind] for name, kind in {**expected, **declared}.items()}
    batch = _read_integers(text, csv_format, types, integers)
    broken = {field.name: pa.string() for field in batch.schema if field.type == pa.binary()}
    if broken:
        _read(text, csv_format, broken)  # not UTF-8: parsing it as a string raises
    return batch


def _doubtful(text: bytes, csv_format: CsvFormat, batch: pa.RecordBatch, kinds: Mapping[str, Kind]) -> list[str]:
    """The columns whose kind depends on their text, which has to be parsed again as strings."""
    all_stacks = list(stacks_or_columns(batch))
    beyond = {batch.schema.names[number] for stack in all_stacks for number in _beyond_int64(stack)}
    doubtful = {name for name in beyond if kinds.get(name) == "float"}
    strings = [stack.values for stack in all_stacks if stack.values.type == pa.string()]
    if _codes_at_field_starts(text, csv_format.dialect) > sum(map(_plain_codes, strings)):
        doubtful |= {name for name, kind in kinds.items() if kind in {"int", "float"}}
    if csv_format.quotes_a_null(text):
        doubtful |= {name for name, kind in kinds.items() if kind == "missing"}
    return sorted(doubtful)


def _holds_code(texts: pa.Array, kind: Kind) -> bool:
    if kind == "missing":
        return texts.null_count < len(texts)
    return bool(pc.any(pc.match_substring_regex(texts, f"{CODE}|{LONG}" if kind == "float" else CODE)).as_py())


def _beyond_int64(stack: ColumnStack) -> list[int]:
    """The indices of the float columns that contain a number beyond int64."""
    if not pa.types.is_float64(stack.values.type):
        return []
    edges = pc.min_max(stack.values)  # of the whole stack first: few columns have such numbers
    if edges["min"].as_py() is None or -(2.0**63) < edges["min"].as_py() <= edges["max"].as_py() < 2.0**63:
        return []
    beyond = pc.greater_equal(pc.abs(stack.values), pa.scalar(2.0**63)).fill_null(False)
    found: list[int] = stack.positions[stack.per_column(np.asarray(beyond)).any(axis=1)].tolist()
    return found


def _codes_at_field_starts(text: bytes, dialect: Dialect) -> int:
    """Count the codes (a zero and a digit or x, with or without a sign) at what may be the start of a field."""
    letters = np.frombuffer(b"\n" + text, np.uint8)
    starts = (NEWLINE, RETURN, ord(dialect.delimiter), ord(dialect.quote))
    zeros = _zeros_after(letters, (*starts, *b"+- "))
    zeros = zeros[_starts_code(letters[zeros], letters[zeros + 1])]
    if not len(zeros):
        return 0
    before = zeros - 1
    before -= is_any(letters[before], b"+-")
    while np.any(spaces := letters[before] == ord(" ")):
        before -= spaces
    return int(is_any(letters[before], starts).sum())


def _zeros_after(letters: np.ndarray, wanted: Sequence[int]) -> np.ndarray:
    """The offsets of the zeros between one of the wanted letters and another letter: int64 [zeros].

    Only a few letters of a text are looked up among the wanted ones: zeros after one that is not a digit.
    """
    from_zero_on = [letter for letter in wanted if letter >= ZERO]
    found = [np.zeros(0, np.int64)]
    for first in range(1, len(letters) - 1, AT_ONCE):
        own = letters[first : min(first + AT_ONCE, len(letters) - 1)]
        before = letters[first - 1 : first - 1 + len(own)]
        likely = before < ZERO
        for letter in from_zero_on:
            likely |= before == letter
        likely &= own == ZERO
        found.append(np.flatnonzero(likely) + first)
    zeros = np.concatenate(found)
    return zeros[is_any(letters[zeros - 1], wanted)]


def _plain_codes(column: pa.Array) -> int:
    """Count the values of a string column that start with a zero and a digit or x."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    starts = offsets[:-1][np.diff(offsets) > 1]
    if not len(starts):
        return 0
    letters = np.frombuffer(column.buffers()[2], np.uint8)
    return int(_starts_code(letters[starts], letters[starts + 1]).sum())


def _starts_code(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    found: np.ndarray = second - ZERO < 10
    found |= (second | 32) == ord("x")
    found &= first == ZERO
    return found


def _texts(text: bytes, csv_format: CsvFormat, types: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """Some columns as strings or bytes: null where the text is empty or an unquoted null value."""
    batch = _read(text, csv_format, types, only=[*types], quoted_nulls=False)
    values = [pc.if_else(pc.equal(pc.binary_length(column), 0), None, column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(values, names=[*types])


def _read_integers(
    text: bytes, csv_format: CsvFormat, types: Mapping[str, pa.DataType], names: Sequence[str] | None = None
) -> pa.RecordBatch:
    """`_read`, where integers may have zeros after a decimal point, as programs write those of a column with gaps.

    names: the columns in which they may, None for all columns of integers.
    """
    try:
        return _read(text, csv_format, types)
    except pa.ArrowInvalid:
        known = [name for name, arrow in types.items() if arrow == pa.int64() and (names is None or name in names)]
        if not known or csv_format.decimal.encode() + b"0" not in text:
            raise
        batch = _read(text, csv_format, {**types, **dict.fromkeys(known, pa.string())})
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        pattern = rf"^[ \t]*(-?[0-9]+)([{csv_format.decimal}]0+)?[ \t]*$"
        try:
            for name in {*known} & columns.keys():
                columns[name] = pc.replace_substring_regex(columns[name], pattern, r"\1").cast(pa.int64())
        except pa.ArrowInvalid:
            pass
        else:
            return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        raise


def _read(
    text: bytes,
    csv_format: CsvFormat,
    types: Mapping[str, pa.DataType],
    *,
    only: Sequence[str] | None = None,
    quoted_nulls: bool = True,
) -> pa.RecordBatch:
    table = pyarrow.csv.read_csv(
        pa.BufferReader(text),
        read_options=pyarrow.csv.ReadOptions(
            column_names=csv_format.columns, block_size=len(text) + 1, use_threads=False, encoding="utf8"
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=csv_format.dialect.delimiter,
            quote_char=csv_format.dialect.quote,
            newlines_in_values=csv_format.dialect.quote.encode() in text,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            decimal_point=csv_format.decimal,
            null_values=csv_format.nulls,
            strings_can_be_null=True,
            quoted_strings_can_be_null=quoted_nulls,
            true_values=[],
            false_values=[],
            include_columns=only or csv_format.selected,
        ),
    )
    return in_one_batch(table)
