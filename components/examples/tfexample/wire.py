"""The bytes of a tf.Example around its values.

A serialized tf.Example consists, for each feature, of a head, which depends on the feature's name, its kind and the
size of the value, and of the value itself. See https://protobuf.dev/programming-guides/encoding for the wire format,
and tensorflow/core/example/feature.proto for the messages.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import binary_array

BYTES, FLOAT, INT64 = 1, 2, 3
"""Field numbers of the kinds of a tf.train.Feature."""

_SEVEN = np.uint64(7)
_KEPT = np.array([0, 0x1, 0x101, 0x10101, 0x1010101], "<u4")
"""Ones in the bytes of a word that a varint of 0 to 4 bytes takes."""
_MARKS = np.array([0, 0, 0x80, 0x8080, 0x808080], "<u4")
"""The bits that say of each of its bytes that another follows."""


def varint(number: int) -> bytes:
    """A protocol buffer's variable-length integer."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def varint_sizes(numbers: NDArray[np.uint64]) -> NDArray[np.int32]:
    """The number of bytes that each number takes as a varint."""
    least, most = (len(varint(int(number))) for number in (numbers.min(initial=2**64 - 1), numbers.max(initial=0)))
    sizes = np.full(len(numbers), min(least, most), np.int32)
    for bits in range(7 * least, 7 * most, 7):
        sizes += numbers >= np.uint64(1 << bits)
    return sizes


def varint_digits(numbers: NDArray[np.uint64], width: int) -> NDArray[np.uint8]:
    """The varints of numbers that all take `width` bytes: uint8 [n, width]."""
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
    """The varints of uint64 [n]; empty where `valid` is False."""
    sizes = varint_sizes(numbers)
    if valid is not None:
        sizes *= valid
    most = int(sizes.max(initial=0))
    if most < len(_KEPT):
        return binary_array(_words(numbers, sizes, most).view(np.uint8)[_KEPT.take(sizes).view(bool)], sizes)
    place = np.arange(most)
    digits = (numbers[:, None] >> (place * 7).astype(np.uint64)).astype(np.uint8) & 127
    digits |= (place < sizes[:, None] - 1).astype(np.uint8) << 7
    return binary_array(digits[place < sizes[:, None]], sizes)


def _words(numbers: NDArray[np.uint64], sizes: NDArray[np.int32], most: int) -> NDArray[np.uint32]:
    """Varints of at most four bytes, one in each word, from its first byte on: uint32 [n]."""
    low = numbers.astype("<u4")
    words = _MARKS.take(sizes)
    for place in range(most):
        words |= (low & np.uint32(127 << 7 * place)) << np.uint32(place)
    return words


def head(name: bytes, kind: int, size: int) -> bytes:
    """The bytes of a feature up to its single value of `size` bytes."""
    values = b"\x0a" + varint(size)
    feature = bytes([kind << 3 | 2]) + varint(len(values) + size) + values
    return _entry(name, feature, size)


def list_head(name: bytes, kind: int, size: int) -> bytes:
    """The bytes of a feature up to its values, which take `size` bytes in all."""
    packed = b"" if kind == BYTES or not size else b"\x0a" + varint(size)
    return _entry(name, bytes([kind << 3 | 2]) + varint(len(packed) + size) + packed, size)


def missing(name: bytes) -> bytes:
    """A whole feature without a value."""
    return _entry(name, b"", 0)


def heads(names: pa.BinaryArray, kind: int, sizes: NDArray[np.int64], *, lists: bool) -> pa.BinaryArray:
    """`head` of each name and size (with `lists`: `list_head`); where the size is negative, `missing`.

    The nested lengths are computed from the inside out: value, feature, map entry.
    """
    present, size = sizes >= 0, np.maximum(sizes, 0)
    has_size = present & (size > 0) & (kind != BYTES) if lists else present
    values = size + has_size * (1 + _signed_varint_sizes(size))
    feature = present * (1 + _signed_varint_sizes(values) + values)
    name = pc.binary_length(names).to_numpy(zero_copy_only=False).astype(np.int64)
    entry = 1 + _signed_varint_sizes(name) + name + 1 + _signed_varint_sizes(feature) + feature
    parts = [
        *(b"\x0a", _signed_varints(entry)),
        *(b"\x0a", _signed_varints(name), names),
        *(b"\x12", _signed_varints(feature)),
        *(_where(present, bytes([kind << 3 | 2])), _signed_varints(values, present)),
        *(_where(has_size, b"\x0a"), _signed_varints(size, has_size)),
    ]
    return pc.binary_join_element_wise(*parts, b"")


def _signed_varints(numbers: NDArray[np.signedinteger], valid: NDArray[np.bool_] | None = None) -> pa.BinaryArray:
    return varints(numbers.astype(np.uint64), valid)


def _signed_varint_sizes(numbers: NDArray[np.signedinteger]) -> NDArray[np.int32]:
    return varint_sizes(numbers.astype(np.uint64))


def _where(condition: NDArray[np.bool_], text: bytes) -> pa.BinaryArray:
    """`text` where the condition holds, otherwise empty."""
    return pa.array([b"", text], pa.binary()).take(pa.array(condition.astype(np.int8)))


def _entry(name: bytes, feature: bytes, size: int) -> bytes:
    """The start of a map entry whose Feature message is `feature` followed by `size` bytes."""
    entry = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(feature) + size) + feature
    return b"\x0a" + varint(len(entry) + size) + entry
