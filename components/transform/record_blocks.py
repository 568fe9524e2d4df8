"""Reads TFRecord files in blocks of rows that are parsed as they are, or decoded into Arrow columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.components.examples.decode import decode
from headrace.components.examples.tfexample.encode import encode
from headrace.components.statistics.read import framed_blocks
from headrace.components.statistics.stored_columns import as_decoded, rows_in_batches

BATCH = 2048
"""The most examples that pass through the graph at once, unless batches are joined."""
BATCH_BYTES = 1 << 26
"""About how many bytes of examples pass through the graph at once: images are long."""
PEEKED = 16
"""Examples at the start of a file that are read to estimate their length."""
PEEKED_BYTES = 1 << 16
"""Bytes to read at a time for them."""


@dataclass(frozen=True)
class RecordBlock:
    """Some records of a file. Record i is data[starts[i] : ends[i]]."""

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def serialized(self) -> tf.Tensor:
        """The records: string [rows]."""
        return tf.constant(self.records(), tf.string)

    def records(self) -> list[bytes]:
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.data[start:end] for start, end in bounds]

    @cached_property
    def columns(self) -> pa.RecordBatch | None:
        """The examples as columns of lists; None if they have another layout than ExampleGen's of single values."""
        return decode(self.data, self.starts, self.ends)

    def columns_named(self, names: Collection[str]) -> pa.RecordBatch:
        """Those columns of any examples that have these names, as columns of lists."""
        found = decode(self.data, self.starts, self.ends, names)
        return ExamplesToRecordBatchDecoder().DecodeBatch(self.records()) if found is None else found


@dataclass(frozen=True)
class ColumnBlock:
    """The same examples, read as the columns that ExampleGen stored."""

    rows: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def serialized(self) -> tf.Tensor:
        """The records: string [rows]. ExampleGen made them of these columns, by the same function."""
        return tf.constant(encode(self.rows).to_numpy(zero_copy_only=False), tf.string)

    @cached_property
    def columns(self) -> pa.RecordBatch:
        """The examples as columns of lists."""
        return as_decoded(self.rows)


Block: TypeAlias = RecordBlock | ColumnBlock


def record_blocks(file: str, rows: int) -> Iterator[Block]:
    """All records of a TFRecord file in order, in blocks of this many rows; the last one may have fewer.

    They are read from the stored columns if there are any. Raises DataError if the file is damaged.
    """
    if (stored := rows_in_batches(file, rows)) is not None:
        yield from map(ColumnBlock, stored)
        return
    yield from serialized_blocks(file, rows)


def serialized_blocks(file: str, rows: int) -> Iterator[RecordBlock]:
    """The same, of the records themselves: to take them from the file is faster than to make them of stored columns."""
    rest = RecordBlock(b"", np.zeros(0, np.int64), np.zeros(0, np.int64))
    for data, starts, ends in framed_blocks(file):
        block = _joined(rest, RecordBlock(data, starts, ends)) if len(rest) else RecordBlock(data, starts, ends)
        whole = len(block) // rows * rows
        for first in range(0, whole, rows):
            yield _part(block, first, first + rows)
        rest = _part(block, whole, len(block))
    if len(rest):
        yield rest


def rows_at_once(file: str, batches: int = 1) -> tuple[int, int]:
    """How many rows of a TFRecord file make a batch, and how many make the batches to join if the records are short."""
    lengths = (length for _, starts, ends in framed_blocks(file, PEEKED_BYTES) for length in (ends - starts).tolist())
    longest = max(islice(lengths, PEEKED), default=1) or 1
    size = max(1, min(BATCH, BATCH_BYTES // longest))
    return size, size * max(1, min(batches, BATCH_BYTES // (longest * size)))


def _part(block: RecordBlock, first: int, last: int) -> RecordBlock:
    return RecordBlock(block.data, block.starts[first:last], block.ends[first:last])


def _joined(one: RecordBlock, other: RecordBlock) -> RecordBlock:
    first, last = int(one.starts[0]), int(one.ends[-1])
    size = last - first
    return RecordBlock(
        one.data[first:last] + other.data,
        np.concatenate([one.starts - first, other.starts + size]),
        np.concatenate([one.ends - first, other.ends + size]),
    )
