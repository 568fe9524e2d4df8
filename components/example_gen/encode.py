"""Columns to tf.Example bytes, without a protocol buffer object and without a loop over rows.

    encode(batch)  ->  pa.BinaryArray, one serialized tf.Example a row

Each column gives pieces (see `pieces`): the bytes before its values, of which there are few, and the values. Features
stand in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.example_gen.pieces import Coded, Codes, Field, Fixed, Piece, Stacked, Varied, join
from headrace.components.example_gen.repeated import Counted, numbers_of, repeated, valid_of
from headrace.components.example_gen.stacks import Stack, stacks, worth_stacking
from headrace.components.example_gen.wire import (
    BYTES,
    FLOAT,
    INT64,
    binary,
    head,
    heads,
    list_head,
    missing,
    offsets_of,
    varint,
    varint_digits,
    varint_sizes,
    varints,
)

_MISSING = -1
_LARGEST_TABLE = 1 << 20
_NOTHING = pa.py_buffer(b"")

Mask = NDArray[np.bool_] | None


def encode(batch: pa.RecordBatch) -> pa.BinaryArray:
    """Each row of `batch` as a serialized tf.Example.

    Columns may be int64 (Int64List), float64 or float32 (FloatList, rounded to float32), string or binary (BytesList),
    lists of those, or null. A missing value is a feature of no kind: that is what TensorFlow's parsers, TFDV and the
    schema take for missing, where an empty list, as TFX's own CsvExampleGen writes it, would count as present. In a
    column of lists null is missing and [] is an empty list; a list must not hold nulls.
    """
    if not batch.num_rows:
        return pa.array([], pa.binary())
    features, own = examples(batch)
    return join([sized(features, start), *own], batch.num_rows)


def examples(batch: pa.RecordBatch) -> tuple[NDArray[np.int64], list[Piece]]:
    """The pieces of all features of at least one row, and how many bytes they make together: int64 [rows]."""
    if worth_stacking(batch):
        all_columns = _stacked(batch)
        return all_columns.lengths, [all_columns]
    names = sorted(batch.schema.names, key=str.encode)
    pieces = [piece for name in names for piece in _column(name.encode(), batch.column(name))]
    features = np.zeros(batch.num_rows, np.int64)
    for piece in pieces:
        features += piece.lengths
    return features, pieces


def start(features: int) -> bytes:
    """What stands before features of so many bytes."""
    return b"\x0a" + varint(features)


def sized(sizes: NDArray[np.integer], template: Callable[[int], bytes]) -> Coded:
    """What stands in each row for a size, of which there are few different ones."""
    present, which = distinct(sizes)
    return Coded.of([template(int(size)) for size in present], which)


def is_list(arrow: pa.DataType) -> bool:
    """Whether a column's rows have any number of values."""
    return pa.types.is_list(arrow) or pa.types.is_large_list(arrow)


def distinct(sizes: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """The different sizes, none below -1, and the place of each row's among them."""
    if sizes.max(initial=0) > _LARGEST_TABLE:
        present, which = np.unique(sizes, return_inverse=True)
        return present, which
    table = np.bincount(sizes + 1)
    present = np.flatnonzero(table)
    table[present] = np.arange(len(present))
    return present - 1, table[sizes + 1]


def _stacked(batch: pa.RecordBatch) -> Stacked:
    """The features of all columns: in each row the head and the value of one after the other."""
    names = pa.array([name.encode() for name in batch.schema.names], pa.binary())
    ranks = np.empty(len(names), np.int64)
    ranks[pc.array_sort_indices(names).to_numpy()] = np.arange(len(names))
    which = np.empty((batch.num_rows, len(names), 2), np.int32)
    pools, first = [pa.array([b""], pa.binary())], 1
    for stack in stacks(batch):
        own, head_of, sizes, values = _heads_and_values(stack, names.take(pa.array(stack.places)))
        behind = first + len(own)
        value_of = np.where(sizes == _MISSING, 0, behind + np.arange(len(values)))
        which[:, ranks[stack.places], 0] = stack.per_column(first + head_of).T
        which[:, ranks[stack.places], 1] = stack.per_column(value_of).T
        pools += [own, values]
        first = behind + len(values)
    return Stacked(pa.concat_arrays(pools), which.reshape(batch.num_rows, -1))


def _heads_and_values(
    stack: Stack, names: pa.BinaryArray
) -> tuple[pa.BinaryArray, NDArray[np.integer], NDArray[np.integer], pa.BinaryArray]:
    """The different heads of a stack's columns with these names; for each value the place of its head among them, its
    size or _MISSING, and its bytes (any, where it is missing).
    """
    kind, values = _bytes_of(stack.values)
    sizes = np.diff(offsets_of(values)).astype(np.int64)
    if stack.values.null_count:
        sizes[~np.asarray(stack.values.is_valid())] = _MISSING
    column, step = np.repeat(np.arange(len(names)), stack.rows), int(sizes.max()) + 2
    pairs, head_of = distinct(column * step + sizes + 1)
    which, own = np.divmod(pairs, step)
    taken = names.take(pa.array(which))
    return heads(taken, kind, own - 1, lists=is_list(stack.values.type)), head_of, sizes, values


def _bytes_of(column: pa.Array) -> tuple[int, pa.BinaryArray]:
    """The kind of a column, and the bytes that stand in each row for its value (any, where it is missing)."""
    if is_list(column.type):
        return _bytes_of_lists(column)
    if pa.types.is_floating(column.type):
        return FLOAT, binary(_float32(numbers_of(column)), np.full(len(column), 4, np.int32))
    if pa.types.is_integer(column.type):
        return INT64, varints(numbers_of(column).astype(np.int64, copy=False).view(np.uint64), valid_of(column))
    if pa.types.is_null(column.type):
        return BYTES, binary(np.empty(0, np.uint8), np.zeros(len(column), np.int32))
    texts = column.cast(pa.binary())
    return BYTES, texts.fill_null(b"") if texts.null_count else texts


def _column(name: bytes, column: pa.Array) -> list[Piece]:
    if pa.types.is_null(column.type):
        return [Coded.same(missing(name), len(column))]
    if is_list(column.type):
        return _list_column(name, column)
    few = repeated(column)
    if few is None:
        return _scalar_column(name, column)
    values, which = few
    return [Coded(_codes_of_counted(name, values) if isinstance(values, Counted) else _codes(name, values), which)]


def _codes(name: bytes, values: pa.Array) -> Codes:
    return Codes(join(_scalar_column(name, values), len(values)))


@lru_cache(maxsize=256)
def _codes_of_counted(name: bytes, counted: Counted) -> Codes:
    return _codes(name, counted.values)


def _scalar_column(name: bytes, column: pa.Array) -> list[Piece]:
    valid = valid_of(column)
    if pa.types.is_floating(column.type):
        own = _float32(numbers_of(column)).view(np.uint8).reshape(-1, 4)
        return [Fixed((Field(head(name, FLOAT, 4), own),), valid, missing(name))]
    if pa.types.is_integer(column.type):
        return _integers(name, numbers_of(column).astype(np.int64, copy=False).view(np.uint64), valid)
    texts = column.cast(pa.binary())
    return _before_each(name, partial(head, name, BYTES), texts if valid is None else texts.fill_null(b""), valid)


def _integers(name: bytes, numbers: NDArray[np.uint64], valid: Mask) -> list[Piece]:
    sizes = varint_sizes(numbers)
    if valid is not None:
        sizes[~valid] = sizes[valid].max(initial=1)
    width = int(sizes.max(initial=1))
    if (sizes == width).all():
        return [Fixed((Field(head(name, INT64, width), varint_digits(numbers, width)),), valid, missing(name))]
    return _before_each(name, partial(head, name, INT64), varints(numbers, valid), valid)


def _list_column(name: bytes, column: pa.Array) -> list[Piece]:
    kind, payload = _bytes_of_lists(column)
    return _before_each(name, partial(list_head, name, kind), payload, valid_of(column))


def _bytes_of_lists(column: pa.Array) -> tuple[int, pa.BinaryArray]:
    """The kind of a column of lists, and the bytes that the values in each list make together."""
    kind, values = _listed(column.flatten())
    lengths = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    ends = offsets_of(values)[np.cumsum(np.append(0, lengths))]
    buffers = [None, pa.py_buffer(ends), values.buffers()[2] or _NOTHING]
    return kind, pa.Array.from_buffers(pa.binary(), len(column), buffers)


def _listed(values: pa.Array) -> tuple[int, pa.BinaryArray]:
    """The kind of a list, and the bytes that each value puts into it: numbers are packed, texts stand one by one."""
    if values.null_count:
        raise ValueError("a list holds a null")
    if pa.types.is_integer(values.type):
        return INT64, varints(numbers_of(values).astype(np.int64, copy=False).view(np.uint64))
    if pa.types.is_floating(values.type):
        return FLOAT, binary(_float32(numbers_of(values)), np.full(len(values), 4, np.int32))
    texts = values.cast(pa.binary())
    sizes = varints(np.diff(offsets_of(texts)).astype(np.uint64))
    return BYTES, pc.binary_join_element_wise(pa.scalar(b"\x0a", pa.binary()), sizes, texts, b"")


def _float32(numbers: NDArray[np.number]) -> NDArray[np.floating]:
    with np.errstate(over="ignore", invalid="ignore"):
        return numbers.astype("<f4")


def _before_each(name: bytes, template: Callable[[int], bytes], values: pa.BinaryArray, valid: Mask) -> list[Piece]:
    """Values and what stands before each; a value that is missing has no bytes."""
    sizes = np.diff(offsets_of(values))
    if valid is not None:
        sizes = np.where(valid, sizes, _MISSING)
    return [sized(sizes, lambda size: missing(name) if size == _MISSING else template(size)), Varied(values)]
