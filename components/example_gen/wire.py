"""The bytes of a tf.Example around its values.

A serialized tf.Example is, for each feature, a head that depends on the feature's name, its kind and the length of the
value, and then the value itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

BYTES, FLOAT, INT64 = 1, 2, 3
"""Field numbers of the kinds of a tf.train.Feature."""

_SEVEN = np.uint64(7)


def varint(number: int) -> bytes:
    """A protocol buffer's variable-length integer."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def varint_sizes(numbers: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The bytes that each number takes as a variable-length integer."""
    least, most = (len(varint(int(number))) for number in (numbers.min(initial=2**64 - 1), numbers.max(initial=0)))
    sizes = np.full(len(numbers), min(least, most), np.int32)
    for bits in range(7 * least, 7 * most, 7):
        sizes += numbers >= np.uint64(1 << bits)
    return sizes


def varint_digits(numbers: NDArray[np.uint64], width: int) -> NDArray[np.uint8]:
    """The bytes of numbers that take `width` bytes: uint8 [n, width]."""
    digits = np.empty((len(numbers), width), np.uint8)
    for place in range(width):
        low = numbers.astype(np.uint8)
        low &= 127
        if place < width - 1:
            low |= 128
            numbers = numbers >> _SEVEN
        digits[:, place] = low
    return digits


def varints(numbers: NDArray[np.uint64], valid: NDArray[np.bool_] | None = None) -> pa.BinaryArray:
    """Variable-length integers from uint64 [n]; no bytes where `valid` is False."""
    sizes = varint_sizes(numbers)
    if valid is not None:
        sizes *= valid
    place = np.arange(sizes.max(initial=0))
    digits = (numbers[:, None] >> (place * 7).astype(np.uint64)).astype(np.uint8) & 127
    digits |= (place < sizes[:, None] - 1).astype(np.uint8) << 7
    return binary(digits[place < sizes[:, None]], sizes)


def head(name: bytes, kind: int, size: int) -> bytes:
    """The bytes from the start of the feature to the start of its one value of `size` bytes."""
    values = b"\x0a" + varint(size)
    feature = bytes([kind << 3 | 2]) + varint(len(values) + size) + values
    return _around(name, feature, size)


def list_head(name: bytes, kind: int, size: int) -> bytes:
    """The bytes from the start of the feature to the start of its values, which take `size` bytes in all."""
    packed = b"" if kind == BYTES or not size else b"\x0a" + varint(size)
    return _around(name, bytes([kind << 3 | 2]) + varint(len(packed) + size) + packed, size)


def missing(name: bytes) -> bytes:
    """A whole feature that has no value."""
    return _around(name, b"", 0)


def heads(names: pa.BinaryArray, kind: int, sizes: NDArray[np.int64], *, lists: bool) -> pa.BinaryArray:
    """For each name and size what `head` gives (`list_head`, for `lists`); for a size below 0, what `missing` gives."""
    present, size = sizes >= 0, np.maximum(sizes, 0)
    has_size = present & (size > 0) & (kind != BYTES) if lists else present
    values = size + has_size * (1 + _varint_sizes(size))
    feature = present * (1 + _varint_sizes(values) + values)
    name = pc.binary_length(names).to_numpy(zero_copy_only=False).astype(np.int64)
    entry = 1 + _varint_sizes(name) + name + 1 + _varint_sizes(feature) + feature
    parts = [
        *(b"\x0a", _varints(entry)),
        *(b"\x0a", _varints(name), names),
        *(b"\x12", _varints(feature)),
        *(_where(present, bytes([kind << 3 | 2])), _varints(values, present)),
        *(_where(has_size, b"\x0a"), _varints(size, has_size)),
    ]
    return pc.binary_join_element_wise(*parts, b"")


def _varints(numbers: NDArray[np.signedinteger], valid: NDArray[np.bool_] | None = None) -> pa.BinaryArray:
    return varints(numbers.astype(np.uint64), valid)


def _varint_sizes(numbers: NDArray[np.signedinteger]) -> NDArray[np.int32]:
    return varint_sizes(numbers.astype(np.uint64))


def _where(condition: NDArray[np.bool_], text: bytes) -> pa.BinaryArray:
    """The text where the condition holds, else no bytes."""
    return pa.array([b"", text], pa.binary()).take(pa.array(condition.astype(np.int8)))


def _around(name: bytes, feature: bytes, size: int) -> bytes:
    entry = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(feature) + size) + feature
    return b"\x0a" + varint(len(entry) + size) + entry


def binary(values: NDArray[np.generic], sizes: NDArray[np.integer]) -> pa.BinaryArray:
    """Values of these sizes that lie one behind the other."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def offsets_of(values: pa.BinaryArray) -> NDArray[np.int32]:
    """Where the values start in their buffer, and where the last one ends."""
    if not len(values):
        return np.zeros(1, np.int32)
    return np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]


def letters_of(values: pa.BinaryArray) -> NDArray[np.uint8]:
    """The bytes of all values, from the first one's start to the last one's end."""
    offsets = offsets_of(values)
    return np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
