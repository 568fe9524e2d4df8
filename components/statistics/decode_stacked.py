"""tf.Example bytes to columns where few rows have many features: all features of all rows at once.

A walk along the entries finds where each feature of each row starts, with a few calls for each feature; everything
after that is computed of whole matrices, [features, rows]. Columns of one kind are slices of one array. Like `decode`
it reads rows that have the same features in the same order (whatever that is), of one value or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.components.example_gen.wire import BYTES, FLOAT, INT64, varint

VALUES = 1 << 19
"""Values that are worked on at a time: their places take some megabytes."""

_LENGTH = 0x0A
"""The tag of field 1 of every message on the way, which is a length and as many bytes."""
_TAGS = {kind << 3 | 2: kind for kind in (BYTES, FLOAT, INT64)}
_LONGEST_VARINT = 10

Places = NDArray[np.int64]


class OtherLayoutError(Exception):
    """The rows are not such as are read here."""


def check(condition: bool) -> None:
    """Raise OtherLayoutError unless the condition holds."""
    if not condition:
        raise OtherLayoutError


def decode_stacked(data: NDArray[np.uint8], starts: Places, ends: Places) -> dict[bytes, pa.Array]:
    """The columns by name: lists of one value, null where the feature is of no kind, of type null where it always is.

    data: with some bytes behind the last row; starts, ends: of the entries of each row's features, without the head of
    the message. Raises OtherLayoutError.
    """
    names = list(_names(data[starts[0] : ends[0]].tobytes()))
    check(len(set(names)) == len(names))
    try:
        entries = _walk(data, starts, len(names))
    except IndexError:
        raise OtherLayoutError from None
    check(np.array_equal(entries[-1], ends))
    found: dict[bytes, pa.Array] = {}
    step = max(1, VALUES // len(starts))
    for first in range(0, len(names), step):
        some = names[first : first + step]
        places = _Values(data, entries[first : first + step + 1], some)
        found |= dict(zip(some, places.columns(), strict=True))
    return found


def _names(row: bytes) -> Iterator[bytes]:
    """The names of a row's features, in their order."""
    place = 0
    while place < len(row):
        check(row[place] == _LENGTH)
        length, inner = _varint(row, place + 1)
        check(inner + 2 <= len(row) and row[inner] == _LENGTH)
        size, name = _varint(row, inner + 1)
        yield row[name : name + size]
        place = inner + length


def _varint(row: bytes, place: int) -> tuple[int, int]:
    """A number below 2^14, and where it ends."""
    check(place + 1 < len(row) and (row[place] < 128 or row[place + 1] < 128))
    if row[place] < 128:
        return row[place], place + 1
    return row[place] & 127 | row[place + 1] << 7, place + 2


def _walk(data: NDArray[np.uint8], starts: Places, features: int) -> Places:
    """Where each entry of each row starts, and where the last one ends: [features + 1, rows]."""
    entries = np.empty((features + 1, len(starts)), np.int64)
    entries[0] = place = starts
    for number in range(1, features + 1):
        entries[number] = place = np.add(*_lengths(data, place + 1))
    return entries


def _lengths(data: NDArray[np.uint8], place: Places) -> tuple[Places, Places]:
    """The numbers below 2^14 in these places, and where each ends. One beyond gives an end that others will not meet,
    or is refused.
    """
    low, high = data[place].astype(np.int64), data[place + 1].astype(np.int64)
    two = low > 127
    if not two.any():
        return low, place + 1
    check(not (two & (high > 127)).any())
    return np.where(two, low & 127 | high << 7, low), place + 1 + two


class _Values:
    """Some features of all rows. entries: where each starts, and where the last ends: [features + 1, rows]."""

    def __init__(self, data: NDArray[np.uint8], entries: Places, names: Sequence[bytes]) -> None:
        self._data, self._ends = data, entries[1:]
        check(bool((data[entries[:-1]] == _LENGTH).all()))
        _, place = _lengths(data, entries[:-1] + 1)
        place = self._named(place, names)
        feature, place = _lengths(data, place)
        check(np.array_equal(place + feature, self._ends))
        self._place, self._present = place, feature > 0

    def columns(self) -> list[pa.Array]:
        """A column for each feature."""
        tags = np.where(self._present, self._data[self._place], 0)
        tag = tags.max(axis=1)
        check(bool(((tags == tag[:, None]) | ~self._present).all()))
        check({*np.unique(tag).tolist()} <= {0, *_TAGS})
        rows = self._present.shape[1]
        columns = [pa.nulls(rows)] * len(tag)
        for own, kind in _TAGS.items():
            chosen = np.flatnonzero(tag == own)
            if len(chosen):
                stack = self._stack(chosen, kind)
                for number, place in enumerate(chosen.tolist()):
                    columns[place] = stack.slice(number * rows, rows)
        return columns

    def _named(self, place: Places, names: Sequence[bytes]) -> Places:
        """Check that each entry has its name; where the feature's length follows it."""
        before = [bytes([_LENGTH]) + varint(len(name)) + name + b"\x12" for name in names]
        sizes = np.array(list(map(len, before)))
        for size in np.unique(sizes).tolist():
            chosen = np.flatnonzero(sizes == size)
            wanted = np.frombuffer(b"".join(before[own] for own in chosen.tolist()), np.uint8).reshape(-1, 1, size)
            found = np.lib.stride_tricks.sliding_window_view(self._data, size)[place[chosen]]
            check(bool((found == wanted).all()))
        return place + sizes[:, None]

    def _stack(self, chosen: NDArray[np.int64], kind: int) -> pa.Array:
        """The columns of these features, which are of one kind, one behind the other."""
        present, ends = self._present[chosen], self._ends[chosen]
        where, end = self._place[chosen][present], ends[present]
        for _ in range(2):  # the list in the feature, and the value in the list
            length, where = _lengths(self._data, where + 1)
            check(np.array_equal(where + length, end))
            if _ == 0:
                check(bool((self._data[where] == _LENGTH).all()))
        if kind == FLOAT:
            return lists(floats(self._data, where, length), present.ravel())
        if kind == INT64:
            return lists(integers(self._data, where, length), present.ravel())
        return lists(self._texts(where, length, present), present.ravel())

    def _texts(self, place: Places, length: Places, present: NDArray[np.bool_]) -> pa.Array:
        """Texts of [features, rows] values: read in the order of their bytes, which is that of the rows."""
        rank = np.empty(present.shape, np.int64)
        rank.T[present.T] = np.arange(len(place))
        order = rank[present]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return texts(self._data, place[back], length[back]).take(pa.array(order))


def texts(data: NDArray[np.uint8], place: Places, length: Places) -> pa.Array:
    """Every second of the pieces into which the values' starts and ends, none before the last, cut the data."""
    cuts = np.stack([place, place + length], axis=1).ravel()
    buffers = [None, pa.py_buffer(cuts), pa.py_buffer(data)]
    pieces = pa.Array.from_buffers(pa.large_binary(), len(cuts) - 1, buffers)
    return pieces.take(pa.array(np.arange(0, len(cuts), 2)))


def floats(data: NDArray[np.uint8], place: Places, length: Places) -> pa.Array:
    """The floats in these places. Raises OtherLayoutError for lengths that are not of one."""
    check(bool((length == 4).all()))
    return pa.array(np.lib.stride_tricks.sliding_window_view(data, 4)[place].view("<f4").ravel())


def integers(data: NDArray[np.uint8], place: Places, length: Places) -> pa.Array:
    """The variable-length integers in these places. Raises OtherLayoutError for lengths that are not of one."""
    longest = int(length.max())
    check(length.min() > 0 and longest <= _LONGEST_VARINT)
    total = np.zeros(len(place), np.uint64)
    for number in range(longest):
        byte = np.where(number < length, data[place + number], 0)
        check(np.array_equal(byte > 127, number < length - 1))
        total |= (byte & 127).astype(np.uint64) << np.uint64(7 * number)
    return pa.array(total.view(np.int64))


def lists(values: pa.Array, present: NDArray[np.bool_]) -> pa.Array:
    """A list of one value where one is present, null elsewhere."""
    offsets = np.zeros(len(present) + 1, np.int64)
    np.cumsum(present, out=offsets[1:])
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    kind = pa.large_list(values.type)
    return pa.Array.from_buffers(kind, len(present), [valid, pa.py_buffer(offsets)], children=[values])
