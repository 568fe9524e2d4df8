"""Many data columns as one tensor, in a number of operations that does not grow with the columns.

Tracing a graph takes time per operation, so a thousand columns that are made dense one by one take seconds before the
first example is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from headrace.trainer.columns.raw import MISSING_INTEGER, RawColumn, RawTensor


def stacked_numbers(tensors: Mapping[str, RawTensor], keys: Sequence[str], batch: tf.Tensor) -> tf.Tensor:
    """`RawColumn.numbers` of several data columns side by side.

    Args:
        tensors: Data columns as Transform passes them.
        keys: The data columns to stack, none of which holds text.
        batch: Number of examples: int64 [].

    Returns:
        float64 [batch, keys]: the first value of each example, NaN where it is missing.
    """
    sparse = [key for key in keys if isinstance(tensors[key], tf.SparseTensor)]
    dense = [key for key in keys if key not in set(sparse)]
    order, parts = list[str](), list[tf.Tensor]()
    for dtype in sorted({tensors[key].dtype for key in sparse}, key=str):
        of_type = [key for key in sparse if tensors[key].dtype == dtype]
        order += of_type
        parts.append(_first_values([tensors[key] for key in of_type], batch))
    if dense:
        order += dense
        parts.append(tf.stack([RawColumn(key, tensors[key]).numbers for key in dense], axis=1))
    stacked = tf.concat(parts, axis=1)
    place = {key: position for position, key in enumerate(order)}
    return stacked if order == list(keys) else tf.gather(stacked, [place[key] for key in keys], axis=1)


def _first_values(columns: Sequence[tf.SparseTensor], batch: tf.Tensor) -> tf.Tensor:
    """float64 [batch, columns] of columns with the same dtype."""
    values = tf.concat([column.values for column in columns], axis=0)
    positions = tf.concat([column.indices for column in columns], axis=0)
    lengths = tf.concat(tf.raw_ops.ShapeN(input=[column.values for column in columns], out_type=tf.int64), axis=0)
    column = tf.repeat(tf.range(len(columns), dtype=tf.int64), lengths)
    numbers = tf.cast(values, tf.float64)
    missing = tf.constant(float("nan"), tf.float64)
    if values.dtype.is_integer:
        numbers = tf.where(tf.equal(values, tf.constant(MISSING_INTEGER, values.dtype)), missing, numbers)
    first = tf.equal(positions[:, 1], 0)
    where = tf.boolean_mask(tf.stack([positions[:, 0], column], axis=1), first)
    nothing = tf.fill(tf.stack([batch, len(columns)]), missing)
    return tf.tensor_scatter_nd_update(nothing, where, tf.boolean_mask(numbers, first))
