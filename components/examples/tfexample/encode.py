"""Columns to serialized tf.Examples, without a protocol buffer object and without a loop over rows.

    encode(batch)  ->  pa.BinaryArray, one serialized tf.Example per row

Each column becomes byte columns (see `byte_columns`): the heads of its feature, of which few differ, and the values.
The features of an example are sorted by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import (
    ColumnStack,
    IntegerRange,
    binary_array,
    codes_of,
    distinct_values,
    is_list,
    numbers_of,
    offsets_of,
    plain_batch,
    stacks,
    valid_of,
    worth_stacking,
)
from headrace.components.examples.tfexample.byte_columns import (
    ByteColumn,
    DictionaryColumn,
    FixedColumn,
    StackedColumns,
    VariableColumn,
    concatenate,
)
from headrace.components.examples.tfexample.wire import (
    BYTES,
    FLOAT,
    INT64,
    head,
    heads,
    list_head,
    missing,
    varint,
    varint_digits,
    varint_sizes,
    varints,
)

_MISSING = -1
"""The size that stands for a missing value."""
_LARGEST_TABLE = 1 << 20
"""Largest size up to which distinct sizes are found by counting, without sorting."""
_EMPTY = pa.py_buffer(b"")

Mask = NDArray[np.bool_] | None


def encode(batch: pa.RecordBatch) -> pa.BinaryArray:
    """Each row of `batch` as a serialized tf.Example.

    Columns may be int64 (Int64List), float64 or float32 (FloatList, rounded to float32), string or binary (BytesList),
    lists of those, or null. A missing value becomes a feature without a kind: TensorFlow's parsers, TFDV and the schema
    take that for missing, whereas an empty list, as TFX's own CsvExampleGen writes it, would count as present. In a
    column of lists, null is missing and [] is an empty list; a list must not hold nulls. Single values may also be a
    dictionary array.
    """
    if not batch.num_rows:
        return pa.array([], pa.binary())
    features, columns = feature_columns(batch)
    return concatenate([by_size(features, example_head), *columns], batch.num_rows)


def feature_dictionary(name: str, values: pa.Array) -> pa.BinaryArray:
    """The whole feature of each value of a column, and at the end that of a missing one."""
    return _dictionary(name.encode(), pa.concat_arrays([values, pa.nulls(1, values.type)]))


def feature_columns(
    batch: pa.RecordBatch, dictionaries: Mapping[str, pa.BinaryArray] = MappingProxyType({})
) -> tuple[NDArray[np.int64], list[ByteColumn]]:
    """The total size of each row's features, int64 [rows], and the byte columns that make them up.

    Takes at least one row. dictionaries: of columns that are dictionary arrays, made once for many batches.
    """
    if worth_stacking(batch):
        stacked = _stacked(plain_batch(batch))
        return stacked.lengths, [stacked]
    names = sorted(batch.schema.names, key=str.encode)
    columns = [own for name in names for own in _column(name, batch.column(name), dictionaries)]
    features = np.zeros(batch.num_rows, np.int64)
    for column in columns:
        features += column.lengths
    return features, columns


def example_head(size: int) -> bytes:
    """The bytes of a tf.Example before features of `size` bytes."""
    return b"\x0a" + varint(size)


def by_size(sizes: NDArray[np.integer], template: Callable[[int], bytes]) -> DictionaryColumn:
    """`template` of each row's size, of which few differ."""
    present, which = distinct_sizes(sizes)
    return DictionaryColumn.of([template(int(size)) for size in present], which)


def distinct_sizes(sizes: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """The distinct sizes, all at least -1, and the index of each row's size among them."""
    if sizes.max(initial=0) > _LARGEST_TABLE:
        present, which = np.unique(sizes, return_inverse=True)
        return present, which
    table = np.bincount(sizes + 1)
    present = np.flatnonzero(table)
    table[present] = np.arange(len(present))
    return present - 1, table[sizes + 1]


def _stacked(batch: pa.RecordBatch) -> StackedColumns:
    """The features of all columns: in each row, the head and the value of one feature after the other."""
    names = pa.array([name.encode() for name in batch.schema.names], pa.binary())
    ranks = np.empty(len(names), np.int64)
    ranks[pc.array_sort_indices(names).to_numpy()] = np.arange(len(names))
    which = np.empty((batch.num_rows, len(names), 2), np.int32)
    pools, first = [pa.array([b""], pa.binary())], 1
    for stack in stacks(batch):
        own, head_of, sizes, values = _heads_and_values(stack, names.take(pa.array(stack.positions)))
        first_value = first + len(own)
        value_of = np.where(sizes == _MISSING, 0, first_value + np.arange(len(values)))
        which[:, ranks[stack.positions], 0] = stack.per_column(first + head_of).T
        which[:, ranks[stack.positions], 1] = stack.per_column(value_of).T
        pools += [own, values]
        first = first_value + len(values)
    return StackedColumns(pa.concat_arrays(pools), which.reshape(batch.num_rows, -1))


def _heads_and_values(
    stack: ColumnStack, names: pa.BinaryArray
) -> tuple[pa.BinaryArray, NDArray[np.integer], NDArray[np.integer], pa.BinaryArray]:
    """The distinct heads of the columns with these names; and for each value the index of its head, its size (_MISSING
    if it has none), and its bytes (arbitrary if it has none).
    """
    kind, values = _value_bytes(stack.values)
    sizes = np.diff(offsets_of(values)).astype(np.int64)
    if stack.values.null_count:
        sizes[~np.asarray(stack.values.is_valid())] = _MISSING
    # A head depends on the column and the size: both are coded as one number, to find the distinct pairs.
    column, step = np.repeat(np.arange(len(names)), stack.rows), int(sizes.max()) + 2
    pairs, head_of = distinct_sizes(column * step + sizes + 1)
    which, own = np.divmod(pairs, step)
    taken = names.take(pa.array(which))
    return heads(taken, kind, own - 1, lists=is_list(stack.values.type)), head_of, sizes, values


def _value_bytes(column: pa.Array) -> tuple[int, pa.BinaryArray]:
    """The kind of a column, and the bytes of each row's value (arbitrary where it is missing)."""
    if is_list(column.type):
        return _list_bytes(column)
    if pa.types.is_floating(column.type):
        return FLOAT, binary_array(_float32(numbers_of(column)), np.full(len(column), 4, np.int32))
    if pa.types.is_integer(column.type):
        return INT64, varints(numbers_of(column).astype(np.int64, copy=False).view(np.uint64), valid_of(column))
    if pa.types.is_null(column.type):
        return BYTES, binary_array(np.empty(0, np.uint8), np.zeros(len(column), np.int32))
    texts = column.cast(pa.binary())
    return BYTES, texts.fill_null(b"") if texts.null_count else texts


def _column(key: str, column: pa.Array, dictionaries: Mapping[str, pa.BinaryArray]) -> list[ByteColumn]:
    name = key.encode()
    if pa.types.is_dictionary(column.type):
        known = dictionaries.get(key)
        features = feature_dictionary(key, column.dictionary) if known is None else known
        return [DictionaryColumn(features, codes_of(column)).without_unused()]
    if pa.types.is_null(column.type):
        return [DictionaryColumn.constant(missing(name), len(column))]
    if is_list(column.type):
        return _list_column(name, column)
    distinct = distinct_values(column)
    if distinct is None:
        return _scalar_column(name, column)
    values, which = distinct
    own = _range_dictionary(name, values) if isinstance(values, IntegerRange) else _dictionary(name, values)
    return [DictionaryColumn(own, which)]


def _dictionary(name: bytes, values: pa.Array) -> pa.BinaryArray:
    """The whole feature of each distinct value."""
    return concatenate(_scalar_column(name, values), len(values))


@lru_cache(maxsize=256)
def _range_dictionary(name: bytes, integers: IntegerRange) -> pa.BinaryArray:
    return _dictionary(name, integers.values)


def _scalar_column(name: bytes, column: pa.Array) -> list[ByteColumn]:
    valid = valid_of(column)
    if pa.types.is_floating(column.type):
        own = _float32(numbers_of(column)).view(np.uint8).reshape(-1, 4)
        return [FixedColumn(head(name, FLOAT, 4), own, valid, missing(name))]
    if pa.types.is_integer(column.type):
        return _integers(name, numbers_of(column).astype(np.int64, copy=False).view(np.uint64), valid)
    texts = column.cast(pa.binary())
    return _with_heads(name, partial(head, name, BYTES), texts if valid is None else texts.fill_null(b""), valid)


def _integers(name: bytes, numbers: NDArray[np.uint64], valid: Mask) -> list[ByteColumn]:
    sizes = varint_sizes(numbers)
    if valid is not None:
        sizes[~valid] = sizes[valid].max(initial=1)
    width = int(sizes.max(initial=1))
    if (sizes == width).all():
        return [FixedColumn(head(name, INT64, width), varint_digits(numbers, width), valid, missing(name))]
    return _with_heads(name, partial(head, name, INT64), varints(numbers, valid), valid)


def _list_column(name: bytes, column: pa.Array) -> list[ByteColumn]:
    kind, payload = _list_bytes(column)
    return _with_heads(name, partial(list_head, name, kind), payload, valid_of(column))


def _list_bytes(column: pa.Array) -> tuple[int, pa.BinaryArray]:
    """The kind of a column of lists, and the bytes of all values of each list."""
    kind, values = _element_bytes(column.flatten())
    lengths = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    ends = offsets_of(values)[np.cumsum(np.append(0, lengths))]
    buffers = [None, pa.py_buffer(ends), values.buffers()[2] or _EMPTY]
    return kind, pa.Array.from_buffers(pa.binary(), len(column), buffers)


def _element_bytes(values: pa.Array) -> tuple[int, pa.BinaryArray]:
    """The kind of a list, and the bytes of each of its values: numbers are packed, strings have a tag and a length."""
    if values.null_count:
        raise ValueError("a list holds a null")
    if pa.types.is_integer(values.type):
        return INT64, varints(numbers_of(values).astype(np.int64, copy=False).view(np.uint64))
    if pa.types.is_floating(values.type):
        return FLOAT, binary_array(_float32(numbers_of(values)), np.full(len(values), 4, np.int32))
    texts = values.cast(pa.binary())
    sizes = varints(np.diff(offsets_of(texts)).astype(np.uint64))
    return BYTES, pc.binary_join_element_wise(pa.scalar(b"\x0a", pa.binary()), sizes, texts, b"")


def _float32(numbers: NDArray[np.number]) -> NDArray[np.floating]:
    with np.errstate(over="ignore", invalid="ignore"):
        return numbers.astype("<f4")


def _with_heads(name: bytes, template: Callable[[int], bytes], values: pa.BinaryArray, valid: Mask) -> list[ByteColumn]:
    """The values with the head of each; a missing value has no bytes."""
    sizes = np.diff(offsets_of(values))
    if valid is not None:
        sizes = np.where(valid, sizes, _MISSING)
    return [by_size(sizes, lambda size: missing(name) if size == _MISSING else template(size)), VariableColumn(values)]
