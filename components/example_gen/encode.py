"""Columns to tf.Example bytes, without a protocol buffer object and without a loop over rows.

    encode(batch)  ->  pa.BinaryArray, one serialized tf.Example a row

A serialized tf.Example is, for each feature, a head that depends on the feature's name, its kind and the length of the
value, and then the value itself. So each column gives two arrays, heads and values, and one join of all of them makes
the rows. Features stand in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BYTES, FLOAT, INT64 = 1, 2, 3
"""Field numbers of the kinds of a tf.train.Feature."""

MISSING = -1
_LARGEST_TABLE = 1 << 20
_NOTHING = pa.py_buffer(b"")


def encode(batch: pa.RecordBatch) -> pa.BinaryArray:
    """Each row of `batch` as a serialized tf.Example.

    Columns may be int64 (Int64List), float64 or float32 (FloatList, rounded to float32), string or binary (BytesList),
    lists of those, or null. A missing value is a feature of no kind: that is what TensorFlow's parsers, TFDV and the
    schema take for missing, where an empty list, as TFX's own CsvExampleGen writes it, would count as present. In a
    column of lists null is missing and [] is an empty list; a list must not hold nulls.
    """
    names = sorted(batch.schema.names, key=str.encode)
    pieces = [piece for name in names for piece in _column(name.encode(), batch.column(name))]
    features = concatenate(pieces, batch.num_rows)
    sizes = np.diff(_offsets(features))
    return concatenate([pa.scalar(b"\x0a", pa.binary()), varints(sizes.astype(np.uint64)), features], batch.num_rows)


def concatenate(pieces: Sequence[pa.Array | pa.Scalar], rows: int) -> pa.BinaryArray:
    """The pieces joined row by row; a scalar stands for the same bytes in every row, a null for none."""
    joined = pc.binary_join_element_wise(
        *pieces, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )
    if isinstance(joined, pa.Scalar):
        return pa.array([joined.as_py()], pa.binary()).take(pa.array(np.zeros(rows, np.int32)))
    return joined


def varint(number: int) -> bytes:
    """A protocol buffer's variable-length integer."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def varints(numbers: np.ndarray, valid: np.ndarray | None = None) -> pa.BinaryArray:
    """Variable-length integers from uint64 [n]; no bytes where `valid` is False."""
    sizes = np.ones(len(numbers), np.int32)
    for bits in range(7, 64, 7):
        sizes += numbers >= np.uint64(1 << bits)
    if valid is not None:
        sizes *= valid
    place = np.arange(sizes.max(initial=0))
    digits = (numbers[:, None] >> (place * 7).astype(np.uint64)).astype(np.uint8) & 127
    digits |= (place < sizes[:, None] - 1).astype(np.uint8) << 7
    return _binary(digits[place < sizes[:, None]], sizes)


def fixed(rows: np.ndarray) -> pa.BinaryArray:
    """Binary values of one width from uint8 [n, width]."""
    return _binary(rows, np.full(len(rows), rows.shape[1], np.int32))


def _column(name: bytes, column: pa.Array) -> tuple[pa.Array | pa.Scalar, ...]:
    if pa.types.is_null(column.type):
        return (pa.scalar(_missing(name), pa.binary()),)
    if is_list(column.type):
        return _list_column(name, column)
    valid = np.asarray(column.is_valid()) if column.null_count else None
    if pa.types.is_integer(column.type):
        values = varints(column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64), valid)
        return _heads(partial(_head, name, INT64), _sizes(values, valid), name), values
    if pa.types.is_floating(column.type):
        sizes = np.full(len(column), 4, np.int32) if valid is None else valid.astype(np.int32) * 4
        values = _binary(_float32(column.drop_null()), sizes)
        return _heads(partial(_head, name, FLOAT), _sizes(values, valid), name), values
    values = column.cast(pa.binary())
    return _heads(partial(_head, name, BYTES), _sizes(values, valid), name), values


def is_list(arrow: pa.DataType) -> bool:
    """Whether a column's rows have any number of values."""
    return pa.types.is_list(arrow) or pa.types.is_large_list(arrow)


def _list_column(name: bytes, column: pa.Array) -> tuple[pa.Array | pa.Scalar, ...]:
    valid = np.asarray(column.is_valid()) if column.null_count else None
    kind, values = _listed(column.flatten())
    lengths = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    ends = _offsets(values)[np.cumsum(np.append(0, lengths))]
    payload = pa.Array.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(ends), values.buffers()[2] or _NOTHING]
    )
    return _heads(partial(_list_head, name, kind), _sizes(payload, valid), name), payload


def _listed(values: pa.Array) -> tuple[int, pa.BinaryArray]:
    """The kind of a list, and the bytes that each value puts into it: numbers are packed, texts stand one by one."""
    if values.null_count:
        raise ValueError("a list holds a null")
    if pa.types.is_integer(values.type):
        return INT64, varints(values.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))
    if pa.types.is_floating(values.type):
        return FLOAT, _binary(_float32(values), np.full(len(values), 4, np.int32))
    texts = values.cast(pa.binary())
    sizes = varints(np.diff(_offsets(texts)).astype(np.uint64))
    return BYTES, concatenate([pa.scalar(b"\x0a", pa.binary()), sizes, texts], len(texts))


def _float32(column: pa.Array) -> np.ndarray:
    with np.errstate(over="ignore"):
        return column.to_numpy(zero_copy_only=False).astype("<f4")


def _sizes(values: pa.BinaryArray, valid: np.ndarray | None) -> np.ndarray:
    sizes = np.diff(_offsets(values))
    return sizes if valid is None else np.where(valid, sizes, MISSING)


def _heads(head: Callable[[int], bytes], sizes: np.ndarray, name: bytes) -> pa.Array | pa.Scalar:
    """What stands before values of these sizes: one template for each size, so few templates for many rows."""
    present, which = _distinct(sizes)
    templates = [_missing(name) if size == MISSING else head(int(size)) for size in present]
    if len(templates) == 1:
        return pa.scalar(templates[0], pa.binary())
    return pa.array(templates, pa.binary()).take(pa.array(which))


def _distinct(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if sizes.max(initial=0) > _LARGEST_TABLE:
        present, which = np.unique(sizes, return_inverse=True)
        return present, which
    table = np.bincount(sizes + 1)
    present = np.flatnonzero(table)
    table[present] = np.arange(len(present))
    return present - 1, table[sizes + 1]


def _head(name: bytes, kind: int, size: int) -> bytes:
    """The bytes from the start of the feature to the start of its one value of `size` bytes."""
    values = b"\x0a" + varint(size)
    feature = bytes([kind << 3 | 2]) + varint(len(values) + size) + values
    return _entry(name, feature, size)


def _list_head(name: bytes, kind: int, size: int) -> bytes:
    """The bytes from the start of the feature to the start of its values, which take `size` bytes in all."""
    packed = b"" if kind == BYTES or not size else b"\x0a" + varint(size)
    return _entry(name, bytes([kind << 3 | 2]) + varint(len(packed) + size) + packed, size)


def _missing(name: bytes) -> bytes:
    """A whole feature that has no value."""
    return _entry(name, b"", 0)


def _entry(name: bytes, feature: bytes, size: int) -> bytes:
    entry = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(feature) + size) + feature
    return b"\x0a" + varint(len(entry) + size) + entry


def _binary(values: np.ndarray, sizes: np.ndarray) -> pa.BinaryArray:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(values)])


def _offsets(values: pa.BinaryArray) -> np.ndarray:
    if not len(values):
        return np.zeros(1, np.int32)
    return np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
