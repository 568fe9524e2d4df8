"""Columns to tf.Example bytes, without a protocol buffer object and without a loop over rows.

    encode(batch)  ->  pa.BinaryArray, one serialized tf.Example a row

A serialized tf.Example is, for each feature, a head that depends on the feature's name, its kind and the length of the
value, and then the value itself. So each column gives two arrays, heads and values, and one join of all of them makes
the rows. Features stand in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.example_gen.repeated import repeated

Piece: TypeAlias = pa.Array | pa.Scalar
"""Bytes for each row, or for all of them."""

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
    return concatenate(pieces(batch)[0], batch.num_rows)


def pieces(batch: pa.RecordBatch) -> tuple[list[Piece], np.ndarray]:
    """What `encode` lays one after the other in each row, and how many bytes that makes: int64 [rows]."""
    names = sorted(batch.schema.names, key=str.encode)
    entries = [_column(name.encode(), batch.column(name)) for name in names]
    features = np.zeros(batch.num_rows, np.int64)
    for entry in entries:
        features += entry.lengths
    whole = _entry_of(features, lambda size: b"\x0a" + varint(size))
    return [*whole.pieces, *(piece for entry in entries for piece in entry.pieces)], whole.lengths + np.zeros_like(
        features
    )


@dataclass(frozen=True)
class _Entry:
    """The pieces of a column, and the bytes that they make together in each row, or in every row."""

    pieces: tuple[Piece, ...]
    lengths: np.ndarray | int


def concatenate(pieces: Sequence[Piece], rows: int) -> pa.BinaryArray:
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


def _column(name: bytes, column: pa.Array) -> _Entry:
    if pa.types.is_null(column.type):
        return _Entry((pa.scalar(_missing(name), pa.binary()),), len(_missing(name)))
    if is_list(column.type):
        return _list_column(name, column)
    few = repeated(column)
    if few is None:
        return _scalar_column(name, column)
    values, which = few
    entry = _scalar_column(name, values)
    lengths = np.zeros(len(values), np.int64) + entry.lengths
    return _Entry((concatenate(entry.pieces, len(values)).take(which),), lengths[which.to_numpy()])


def _scalar_column(name: bytes, column: pa.Array) -> _Entry:
    valid = np.asarray(column.is_valid()) if column.null_count else None
    if pa.types.is_integer(column.type):
        kind = INT64
        values = varints(column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64), valid)
    elif pa.types.is_floating(column.type):
        kind = FLOAT
        sizes = np.full(len(column), 4, np.int32) if valid is None else valid.astype(np.int32) * 4
        values = _binary(_float32(column.drop_null()), sizes)
    else:
        kind = BYTES
        values = column.cast(pa.binary())
    return _entry_of(_sizes(values, valid), partial(_head, name, kind), values, _missing(name))


def is_list(arrow: pa.DataType) -> bool:
    """Whether a column's rows have any number of values."""
    return pa.types.is_list(arrow) or pa.types.is_large_list(arrow)


def _list_column(name: bytes, column: pa.Array) -> _Entry:
    valid = np.asarray(column.is_valid()) if column.null_count else None
    kind, values = _listed(column.flatten())
    lengths = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    ends = _offsets(values)[np.cumsum(np.append(0, lengths))]
    payload = pa.Array.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(ends), values.buffers()[2] or _NOTHING]
    )
    return _entry_of(_sizes(payload, valid), partial(_list_head, name, kind), payload, _missing(name))


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


def _entry_of(
    sizes: np.ndarray, head: Callable[[int], bytes], values: pa.BinaryArray | None = None, missing: bytes = b""
) -> _Entry:
    """Values of these sizes and what stands before them: one template for each size, so few for many rows."""
    present, which = distinct(sizes)
    templates = [missing if size == MISSING else head(int(size)) for size in present]
    lengths = np.array([len(template) for template in templates], np.int64) + np.maximum(present, 0)
    after = () if values is None else (values,)
    if len(templates) == 1:
        return _Entry((pa.scalar(templates[0], pa.binary()), *after), int(lengths[0]))
    return _Entry((pa.array(templates, pa.binary()).take(pa.array(which)), *after), lengths[which])


def distinct(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
    return _around(name, feature, size)


def _list_head(name: bytes, kind: int, size: int) -> bytes:
    """The bytes from the start of the feature to the start of its values, which take `size` bytes in all."""
    packed = b"" if kind == BYTES or not size else b"\x0a" + varint(size)
    return _around(name, bytes([kind << 3 | 2]) + varint(len(packed) + size) + packed, size)


def _missing(name: bytes) -> bytes:
    """A whole feature that has no value."""
    return _around(name, b"", 0)


def _around(name: bytes, feature: bytes, size: int) -> bytes:
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
