"""Decodes tf.Example bytes into columns without a loop over rows: the inverse of `tfexample.encode`.

Both decoders here expect rows with the same features in the same order, each with one value or none, as our ExampleGen
writes them. Rows in another layout are left to tfx_bsl's decoder, which gives the same columns at four times the cost.

- Few features: a cursor steps through all rows at once, byte by byte. It holds the position in each row.
- Few rows of many features, where NumPy calls for each feature would cost more: a walk along the features finds where
  each one starts in each row, with a few calls per feature. The rest works on matrices [features, rows], and columns of
  one kind are slices of one array.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import compress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import FEW_ROWS, MANY_COLUMNS
from headrace.components.examples.tfexample.wire import BYTES, FLOAT, INT64, varint

VALUES = 1 << 19
"""How many values of many features are decoded at a time: their positions take some megabytes."""

_SPARE = 64
"""Bytes that the fixed parts of a feature, without its name, may reach beyond the end of a damaged row."""
_LENGTH = 0x0A
"""The tag of field 1 of every nested message: its length follows, and then its bytes."""
_KINDS = {kind << 3 | 2: kind for kind in (BYTES, FLOAT, INT64)}
"""The kind of a feature's list by its tag."""
_LONGEST_VARINT = 10

Positions = NDArray[np.int64]


class OtherLayoutError(Exception):
    """The rows have a layout that is not decoded here."""


def decode(
    data: bytes, starts: Positions, ends: Positions, wanted: Collection[str] | None = None
) -> pa.RecordBatch | None:
    """What ExamplesToRecordBatchDecoder makes of serialized tf.Examples; None if they have another layout.

    Row i is data[starts[i] : ends[i]], the rows in order. There is at least one. wanted: the columns to return, those
    that there are; None: all. The values of the others are not read.
    """
    try:
        in_order = _names(data[starts[0] : ends[0]])
        names = sorted(in_order)
        texts = [name.decode() for name in names]
        _check(b"\0" not in b"".join(names))  # where tfx_bsl would cut a name off
        spare = bytes(_SPARE + max(map(len, names), default=0))
        first, last = int(starts[0]), int(ends[-1])
        starts, ends = starts - first, ends - first
        cursor = _Cursor(np.frombuffer(b"".join([memoryview(data)[first:last], spare]), np.uint8), starts)
        cursor.literal(b"\x0a")
        cursor.expect(cursor.length(), ends)
        chosen = [wanted is None or text in wanted for text in texts]
        if len(starts) < FEW_ROWS and len(names) >= MANY_COLUMNS:
            by_name = _decode_many_features(cursor.data, cursor.position, ends, in_order, {*compress(names, chosen)})
            columns = [by_name[name] for name in compress(names, chosen)]
        else:
            found = [_column(cursor, name, ends, read=read) for name, read in zip(names, chosen, strict=True)]
            columns = [*compress(found, chosen)]
            cursor.expect(0, ends)
    except (OtherLayoutError, UnicodeDecodeError):
        return None
    if not columns:  # a batch that is made of no arrays would have no rows
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), len(starts), [None]))
    return pa.RecordBatch.from_arrays(columns, [*compress(texts, chosen)])


def _check(condition: bool) -> None:
    if not condition:
        raise OtherLayoutError


def _names(record: bytes) -> list[bytes]:
    """The names of a record's features, in their order. Raises OtherLayoutError if one occurs twice."""
    names, (end, at) = list[bytes](), _message_at(record, 0)
    _check(end == len(record))
    while at < end:
        entry, key = _message_at(record, at)
        name, start = _message_at(record, key)
        _check(name <= entry <= end)
        names.append(record[start:name])
        at = entry
    _check(len(set(names)) == len(names))
    return names


def _message_at(record: bytes, at: int) -> tuple[int, int]:
    """The end and the start of the content of field 1, which begins at `at`."""
    _check(at + 1 < len(record) and record[at] == _LENGTH)
    length, shift = 0, 0
    for position in range(at + 1, min(at + 1 + _LONGEST_VARINT, len(record))):
        length |= (record[position] & 127) << shift
        if record[position] < 128:
            return position + 1 + length, position + 1
        shift += 7
    raise OtherLayoutError


class _Cursor:
    """A position in each row. data: uint8 [bytes]; position: int64 [rows]."""

    def __init__(self, data: NDArray[np.uint8], position: Positions) -> None:
        self.data, self.position = data, position

    def literal(self, text: bytes) -> None:
        """Step over these bytes."""
        found = np.lib.stride_tricks.sliding_window_view(self.data, len(text))[self.position]
        _check(found.tobytes() == text * len(found))
        self.position = self.position + len(text)

    def length(self) -> Positions:
        """Step over a variable-length integer below 2^28, and return it."""
        byte = self.data[self.position].astype(np.int64)
        self.position = self.position + 1
        total, more, shift = byte & 127, byte > 127, 7
        while more.any():
            _check(shift < 28)
            byte = np.where(more, self.data[self.position], 0).astype(np.int64)
            self.position = self.position + more
            total |= (byte & 127) << shift
            more, shift = byte > 127, shift + 7
        return total

    def expect(self, length: Positions | int, ends: Positions) -> None:
        """Check that a message of this length ends at `ends`."""
        _check(np.array_equal(self.position + length, ends))


def _column(cursor: _Cursor, name: bytes, row_ends: Positions, *, read: bool) -> pa.Array | None:
    """Step over a feature and, if `read`, return its values: a list for each row, null if the feature is empty."""
    cursor.literal(b"\x0a")
    length = cursor.length()
    ends = cursor.position + length
    _check(bool((ends <= row_ends).all()))
    cursor.literal(b"\x0a" + varint(len(name)) + name + b"\x12")
    feature = cursor.length()
    cursor.expect(feature, ends)
    if not read:
        cursor.position = ends
        return None
    present = feature > 0
    values = _single_values(_Cursor(cursor.data, cursor.position[present]), ends[present]) if present.any() else None
    cursor.position = ends
    return pa.nulls(len(present)) if values is None else lists(values, present)


def _single_values(cursor: _Cursor, ends: Positions) -> pa.Array:
    """The only value of each feature that has one."""
    (kind, *others) = np.unique(cursor.data[cursor.position])
    _check(not others and kind & 7 == 2)
    cursor.position = cursor.position + 1
    cursor.expect(cursor.length(), ends)
    cursor.literal(b"\x0a")
    length = cursor.length()
    cursor.expect(length, ends)
    read = {BYTES: _strings, FLOAT: _floats, INT64: _integers}.get(int(kind >> 3))
    _check(read is not None)
    return read(cursor.data, cursor.position, length)  # type: ignore[misc]


def _decode_many_features(
    data: NDArray[np.uint8], starts: Positions, ends: Positions, names: Sequence[bytes], wanted: Collection[bytes]
) -> dict[bytes, pa.Array]:
    """The wanted columns by name: lists of one value, null where the feature is empty, of type null if it always is.

    Args:
        data: with some bytes after the last row.
        starts: of each row's features, without the head of the message.
        ends: the ends of the rows.
        names: of the features, in the order that they have in each row.
        wanted: the names of those to read.
    """
    try:
        entries = _feature_starts(data, starts, len(names))
    except IndexError:
        raise OtherLayoutError from None
    _check(np.array_equal(entries[-1], ends))
    found: dict[bytes, pa.Array] = {}
    step = max(1, VALUES // len(starts))
    for first in range(0, len(names), step):
        some = names[first : first + step]
        features = _FeatureMatrix(data, entries[first : first + step + 1], some)
        chosen = [name in wanted for name in some]
        found |= dict(zip(compress(some, chosen), features.columns(np.array(chosen)), strict=True))
    return found


def _feature_starts(data: NDArray[np.uint8], starts: Positions, features: int) -> Positions:
    """Where each feature of each row starts, and where the last one ends: [features + 1, rows]."""
    entries = np.empty((features + 1, len(starts)), np.int64)
    entries[0] = position = starts
    for number in range(1, features + 1):
        entries[number] = position = np.add(*_lengths(data, position + 1))
    return entries


def _lengths(data: NDArray[np.uint8], position: Positions) -> tuple[Positions, Positions]:
    """The integers below 2^14 at these positions, and where each ends.

    A larger one raises OtherLayoutError, or gives an end that a later check rejects.
    """
    low, after = data[position].astype(np.int64), position + 1
    two_bytes = low > 127
    if not two_bytes.any():
        return low, after
    high = data[after].astype(np.int64)
    _check(not (two_bytes & (high > 127)).any())
    return np.where(two_bytes, low & 127 | high << 7, low), after + two_bytes


class _FeatureMatrix:
    """Some features of all rows. entries: where each starts, and where the last ends, [features + 1, rows]."""

    def __init__(self, data: NDArray[np.uint8], entries: Positions, names: Sequence[bytes]) -> None:
        self._data, self._ends = data, entries[1:]
        _check(bool((data[entries[:-1]] == _LENGTH).all()))
        _, position = _lengths(data, entries[:-1] + 1)
        position = self._after_names(position, names)
        feature, position = _lengths(data, position)
        _check(np.array_equal(position + feature, self._ends))
        self._position, self._present = position, feature > 0

    def columns(self, wanted: NDArray[np.bool_]) -> list[pa.Array]:
        """The columns of the wanted ones of these features."""
        tags = np.where(self._present, self._data[self._position], 0)
        tag = tags.max(axis=1)
        _check(bool(((tags == tag[:, None]) | ~self._present).all()))
        _check({*np.unique(tag).tolist()} <= {0, *_KINDS})
        rows = self._present.shape[1]
        columns = [pa.nulls(rows)] * len(tag)
        for own, kind in _KINDS.items():
            chosen = np.flatnonzero(wanted & (tag == own))
            if len(chosen):
                stack = self._stack(chosen, kind)
                for number, index in enumerate(chosen.tolist()):
                    columns[index] = stack.slice(number * rows, rows)
        return [*compress(columns, wanted)]

    def _after_names(self, position: Positions, names: Sequence[bytes]) -> Positions:
        """Check that each feature has its name, and step over it to the length of the feature's value."""
        heads = [bytes([_LENGTH]) + varint(len(name)) + name + b"\x12" for name in names]
        sizes = np.array(list(map(len, heads)))
        for size in np.unique(sizes).tolist():  # names of one length are compared at once
            chosen = np.flatnonzero(sizes == size)
            wanted = np.frombuffer(b"".join(heads[own] for own in chosen.tolist()), np.uint8).reshape(-1, 1, size)
            found = np.lib.stride_tricks.sliding_window_view(self._data, size)[position[chosen]]
            _check(bool((found == wanted).all()))
        return position + sizes[:, None]

    def _stack(self, chosen: NDArray[np.int64], kind: int) -> pa.Array:
        """The columns of these features, which are of one kind, concatenated."""
        present, ends = self._present[chosen], self._ends[chosen]
        where, end = self._position[chosen][present], ends[present]
        for level in ("list", "value"):  # the list in the feature, and the value in the list
            length, where = _lengths(self._data, where + 1)
            _check(np.array_equal(where + length, end))
            if level == "list":
                _check(bool((self._data[where] == _LENGTH).all()))
        if kind == FLOAT:
            return lists(_floats(self._data, where, length), present.ravel())
        if kind == INT64:
            return lists(_integers(self._data, where, length), present.ravel())
        return lists(self._string_values(where, length, present), present.ravel())

    def _string_values(self, position: Positions, length: Positions, present: NDArray[np.bool_]) -> pa.Array:
        """Strings of [features, rows] values. `_strings` needs rising positions, which is the order of the rows."""
        rank = np.empty(present.shape, np.int64)
        rank.T[present.T] = np.arange(len(position))
        order = rank[present]
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        return _strings(self._data, position[inverse], length[inverse]).take(pa.array(order))


def _strings(data: NDArray[np.uint8], position: Positions, length: Positions) -> pa.Array:
    """The strings at these positions, none before the one before it.

    The starts and ends of the values, as offsets, cut the data into pieces: every other piece is a value.
    """
    offsets = np.stack([position, position + length], axis=1).ravel()
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    pieces = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return pieces.take(pa.array(np.arange(0, len(offsets), 2)))


def _floats(data: NDArray[np.uint8], position: Positions, length: Positions) -> pa.Array:
    """The floats at these positions. Raises OtherLayoutError if the lengths are not those of one float."""
    _check(bool((length == 4).all()))
    return pa.array(np.lib.stride_tricks.sliding_window_view(data, 4)[position].view("<f4").ravel())


def _integers(data: NDArray[np.uint8], position: Positions, length: Positions) -> pa.Array:
    """The variable-length integers at these positions. Raises OtherLayoutError if the lengths are not those of one."""
    longest = int(length.max())
    _check(length.min() > 0 and longest <= _LONGEST_VARINT)
    total = np.zeros(len(position), np.uint64)
    for number in range(longest):
        byte = np.where(number < length, data[position + number], 0)
        _check(np.array_equal(byte > 127, number < length - 1))
        total |= (byte & 127).astype(np.uint64) << np.uint64(7 * number)
    return pa.array(total.view(np.int64))


def lists(values: pa.Array, present: NDArray[np.bool_]) -> pa.Array:
    """A list of one value where one is present, null elsewhere."""
    offsets = np.zeros(len(present) + 1, np.int64)
    np.cumsum(present, out=offsets[1:])
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    kind = pa.large_list(values.type)
    return pa.Array.from_buffers(kind, len(present), [valid, pa.py_buffer(offsets)], children=[values])
