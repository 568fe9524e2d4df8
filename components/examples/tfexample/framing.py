"""TFRecord framing of a whole batch.

A record on disk is its length (uint64, little endian), the masked CRC32C of those 8 bytes, the record, and the record's
masked CRC32C (tensorflow/core/lib/io/record_writer.h).

The checksums are computed from those of the columns that the rows consist of, for all rows at once (see `crc32c`). For
few rows, for columns of many different sizes, and for many columns of arbitrary bytes or of values that seldom repeat,
reading every byte of the finished records is faster.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google_crc32c import value as checksum
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import FEW_ROWS, bytes_of, offsets_of
from headrace.components.examples.tfexample import crc32c
from headrace.components.examples.tfexample.byte_columns import (
    ByteColumn,
    Dictionary,
    DictionaryColumn,
    FixedColumn,
    FixedField,
    SingleColumn,
    StackedColumns,
    VariableColumn,
    concatenate,
    merged,
)
from headrace.components.examples.tfexample.encode import distinct_sizes, example_head, feature_columns

HEADER, FOOTER = 12, 4
"""Bytes before and after a record."""

SHORT = 10
"""Longest variable value, in bytes, whose checksum is computed byte by byte for all rows at once."""

MAX_SIZES = 256
"""Most distinct sizes of a column: each takes a table."""

MAX_VARIABLE = 3
"""Most columns of arbitrary bytes or of values that seldom repeat. Each takes about 90 ns a row; reading a row of a
few hundred bytes takes 300 ns."""

REPEATS = 16
"""Average number of occurrences of a column's values from which finding the checksum of each pays in many columns."""


def framed_examples(
    batch: pa.RecordBatch, dictionaries: Mapping[str, Dictionary] = MappingProxyType({})
) -> pa.BinaryArray:
    """Each row of `batch` as a tf.Example (see `encode`) in its TFRecord frame. dictionaries: see `feature_columns`."""
    if not batch.num_rows:
        return pa.array([], pa.binary())
    features, columns = feature_columns(batch, dictionaries)
    return _framed(features, columns, example_head)


def frame(records: pa.BinaryArray) -> pa.BinaryArray:
    """Each record in its TFRecord frame."""
    if not len(records):
        return pa.array([], pa.binary())
    return _framed(pc.binary_length(records).to_numpy().astype(np.int64), [VariableColumn(records)], lambda _: b"")


def checksums_match(data: bytes, edges: NDArray[np.integer]) -> bool:
    """Whether each record of `data`, framed from one edge to the next, has the checksum that follows it."""
    letters, ends = np.frombuffer(data, np.uint8), edges[1:, None] - np.arange(FOOTER, 0, -1)
    return bool(np.array_equal(_masked(_records(pa.py_buffer(data), edges)), letters[ends].view("<u4")[:, 0]))


def _framed(sizes: NDArray[np.int64], columns: Sequence[ByteColumn], head: Callable[[int], bytes]) -> pa.BinaryArray:
    """Frame records that consist of `head(size)` and of columns that take `size` bytes: int64 [rows]."""
    rows, columns = len(sizes), merged(columns)
    present, which = distinct_sizes(sizes)
    heads = [head(int(size)) for size in present]
    headers = [_header(len(text) + int(size)) + text for text, size in zip(heads, present, strict=True)]
    states = row_states([DictionaryColumn.of(heads, which), *columns], rows)
    header = DictionaryColumn.of(headers, which)
    if states is None:
        return _with_checksums(concatenate([header, *columns, DictionaryColumn.constant(bytes(FOOTER), rows)], rows))
    footer = FixedColumn((FixedField(b"", crc32c.masked(states).view(np.uint8).reshape(-1, FOOTER)),))
    return concatenate([header, *merged([*columns, footer])], rows)


def _with_checksums(framed: pa.BinaryArray) -> pa.BinaryArray:
    """The framed records, with their checksums written into the zeros at the end of each."""
    edges, data = np.frombuffer(framed.buffers()[1], np.int32)[: len(framed) + 1], framed.buffers()[2]
    footers, into = edges[1:] - FOOTER, np.frombuffer(data, np.uint8)
    checksums = _masked(_records(data, edges)).view(np.uint8).reshape(-1, FOOTER)
    for place in range(FOOTER):
        into[footers + place] = checksums[:, place]
    return framed


def _records(data: pa.Buffer, edges: NDArray[np.integer]) -> list[bytes]:
    """The records without their frames. Arrow makes bytes objects of contiguous values only, so the frames between the
    records are taken as values too, and every other one is dropped.
    """
    cuts = np.empty(2 * len(edges) - 2, np.int32)
    cuts[::2], cuts[1::2] = edges[:-1] + HEADER, edges[1:] - FOOTER
    runs = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), data])
    found: list[bytes] = runs.to_numpy(zero_copy_only=False)[::2].tolist()
    return found


def _header(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + _masked([length]).tobytes()


def _masked(texts: Sequence[bytes]) -> NDArray[np.uint32]:
    """The masked CRC32C of each byte string: uint32 [n], little endian."""
    crc = np.fromiter(map(checksum, texts), np.uint32, len(texts))
    return crc32c.masked(crc ^ np.uint32(crc32c.INITIAL))


def row_states(columns: Sequence[ByteColumn], rows: int) -> crc32c.States | None:
    """The CRC32C state of each row after the last column: uint32 [rows].

    Returns None where it is faster to read the concatenated rows. A run of columns of which only the first varies in
    size is advanced over in one step.
    """
    single = [column for column in columns if not isinstance(column, StackedColumns)]
    variable = sum(map(_mostly_differs, single))
    if rows < FEW_ROWS or len(single) < len(columns) or variable > MAX_VARIABLE or not all(map(_has_few_sizes, single)):
        return None
    state = np.full(rows, crc32c.INITIAL, np.uint32)
    for run in _runs(single):
        following = sum(int(column.lengths) for column in run[1:])
        state = _advanced(run[0], following, state)
        state ^= _contribution(run[0], following)
        for column in run[1:]:
            following -= int(column.lengths)
            state ^= _contribution(column, following)
    return state


def _mostly_differs(column: SingleColumn) -> bool:
    """Whether finding the checksums of a column's values takes as long as if all differed."""
    if isinstance(column, DictionaryColumn):
        return len(column.dictionary) * REPEATS > len(column.which)
    return isinstance(column, VariableColumn)


def _runs(columns: Sequence[SingleColumn]) -> Iterator[list[SingleColumn]]:
    """Adjacent columns, all but the first of which have the same size in every row."""
    run: list[SingleColumn] = []
    for column in columns:
        if run and not isinstance(column.lengths, int):
            yield run
            run = []
        run.append(column)
    if run:
        yield run


def _has_few_sizes(column: SingleColumn) -> bool:
    sizes = column.sizes if not isinstance(column, FixedColumn) else np.zeros(0, np.int32)
    if isinstance(column, VariableColumn):
        return int(sizes.max(initial=0)) <= SHORT
    return len(sizes) <= MAX_SIZES or len(np.unique(sizes)) <= MAX_SIZES


def _advanced(column: SingleColumn, following: int, states: crc32c.States) -> crc32c.States:
    """The states after as many zero bytes as the column has, and `following` more."""
    if isinstance(column, DictionaryColumn):
        return crc32c.advanced_by(states, column.sizes + following, column.which)
    if isinstance(column, VariableColumn):
        return crc32c.advanced_by(states, np.arange(SHORT + 1) + following, column.sizes)
    out = crc32c.advanced(states, column.width + following)
    if column.valid is not None:
        rows = np.flatnonzero(~column.valid)
        out[rows] = crc32c.advanced(states[rows], len(column.missing) + following)
    return out


def _contribution(column: SingleColumn, following: int) -> crc32c.States:
    """What the column's bytes, followed by `following` more, add to the states."""
    if isinstance(column, DictionaryColumn):
        return crc32c.advanced(column.dictionary.checksums, following).take(column.which)
    if isinstance(column, VariableColumn):
        return crc32c.advanced(_variable_contribution(column), following)
    out, remaining = np.zeros(1, np.uint32), following + column.width
    for field in column.fields:
        remaining -= field.width
        out = out ^ crc32c.of_string_before(field.before, remaining + field.own.shape[1])
        if field.own.shape[1]:
            out = out ^ crc32c.of_bytes(field.own, remaining)
    if column.valid is None:
        return out
    return np.where(column.valid, out, crc32c.of_string_before(column.missing, following))


def _variable_contribution(column: VariableColumn) -> crc32c.States:
    """Byte by byte, for all rows at once; rows that have ended keep their state."""
    letters, offsets = bytes_of(column.values), offsets_of(column.values)
    starts, sizes, step = offsets[:-1] - offsets[0], column.sizes, crc32c.after(1)[0]
    state = np.zeros(len(sizes), np.uint32)
    for place in range(int(sizes.max(initial=0))):
        own = letters.take(starts + place, mode="clip")
        state = np.where(sizes > place, step.take((state & 255) ^ own) ^ (state >> np.uint32(8)), state)
    return state
