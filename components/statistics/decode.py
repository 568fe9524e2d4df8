"""tf.Example bytes to columns, without a loop over rows: `headrace.components.example_gen.encode` backwards.

All rows are read at once, byte by byte: a cursor holds each row's position. That works where every row has the same
features in the same order, of one value or none, as our ExampleGen writes them. Whatever differs is left to tfx_bsl's
decoder, whose results (and types) these are, at a quarter of its cost. Few rows of many features, where calls for each
feature would cost more, are read by `decode_stacked`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import tensorflow as tf
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from headrace.components.example_gen.stacks import FEW_ROWS, MANY_COLUMNS
from headrace.components.example_gen.wire import BYTES, FLOAT, INT64, varint
from headrace.components.statistics.decode_stacked import (
    OtherLayoutError,
    check,
    decode_stacked,
    floats,
    integers,
    lists,
    texts,
)

_SPARE = 64
"""Bytes that the fixed parts of a feature, but for its name, may reach beyond the end of a damaged row."""


def decode(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> pa.RecordBatch | None:
    """What ExamplesToRecordBatchDecoder makes of serialized tf.Examples, or None if they are of another layout.

    Row i is data[starts[i] : ends[i]], the rows in order; there is at least one.
    """
    try:
        first = tf.train.Example.FromString(data[starts[0] : ends[0]])
        names = sorted(name.encode() for name in first.features.feature)
        check(b"\0" not in b"".join(names))  # where tfx_bsl cuts a name off
        spare = bytes(_SPARE + max(map(len, names), default=0))
        cursor = Cursor(np.frombuffer(data + spare, np.uint8), starts)
        cursor.literal(b"\x0a")
        cursor.expect(cursor.length(), ends)
        if len(starts) < FEW_ROWS and len(names) >= MANY_COLUMNS:
            stacked = decode_stacked(cursor.data, cursor.place, ends)
            columns = [stacked[name] for name in names]
        else:
            columns = [_column(cursor, name, ends) for name in names]
            cursor.expect(0, ends)
    except (OtherLayoutError, DecodeError):
        return None
    return pa.RecordBatch.from_arrays(columns, [name.decode() for name in names])


class Cursor:
    """A place in each row. data: uint8 [bytes]; place: int64 [rows]."""

    def __init__(self, data: NDArray[np.uint8], place: NDArray[np.int64]) -> None:
        self.data, self.place = data, place

    def literal(self, text: bytes) -> None:
        """Step over these bytes."""
        found = np.lib.stride_tricks.sliding_window_view(self.data, len(text))[self.place]
        check(found.tobytes() == text * len(found))
        self.place = self.place + len(text)

    def length(self) -> NDArray[np.int64]:
        """Step over a variable-length integer below 2^28."""
        byte = self.data[self.place].astype(np.int64)
        self.place = self.place + 1
        total, more, shift = byte & 127, byte > 127, 7
        while more.any():
            check(shift < 28)
            byte = np.where(more, self.data[self.place], 0).astype(np.int64)
            self.place = self.place + more
            total |= (byte & 127) << shift
            more, shift = byte > 127, shift + 7
        return total

    def expect(self, length: NDArray[np.int64] | int, ends: NDArray[np.int64]) -> None:
        """Check that what comes, of this length, ends there."""
        check(np.array_equal(self.place + length, ends))


def _column(cursor: Cursor, name: bytes, row_ends: NDArray[np.int64]) -> pa.Array:
    """Step over a feature; its values, a list for each row, null where the feature is of no kind."""
    cursor.literal(b"\x0a")
    length = cursor.length()
    ends = cursor.place + length
    check(bool((ends <= row_ends).all()))
    cursor.literal(b"\x0a" + varint(len(name)) + name + b"\x12")
    feature = cursor.length()
    cursor.expect(feature, ends)
    present = feature > 0
    values = _values(Cursor(cursor.data, cursor.place[present]), ends[present]) if present.any() else None
    cursor.place = ends
    return pa.nulls(len(present)) if values is None else lists(values, present)


def _values(cursor: Cursor, ends: NDArray[np.int64]) -> pa.Array:
    """The only value in each place."""
    (kind, *others) = np.unique(cursor.data[cursor.place])
    check(not others and kind & 7 == 2)
    cursor.place = cursor.place + 1
    cursor.expect(cursor.length(), ends)
    cursor.literal(b"\x0a")
    length = cursor.length()
    cursor.expect(length, ends)
    read = {BYTES: texts, FLOAT: floats, INT64: integers}.get(int(kind >> 3))
    check(read is not None)
    return read(cursor.data, cursor.place, length)  # type: ignore[misc]
