"""How many rows a call of a model takes: as many as make the call itself cheap, and no more than memory has room for.

    widest = values_per_row(graph)                # of the widest tensor of its graph, None if that is unknown
    rows_per_call(widest, length=120, outputs=2)  # 16,384 for small layers, else 2,048; fewer for long rows

A call takes some milliseconds of its own, about as long as small layers need for 2,000 rows. Large layers gain nothing
from more rows, and would take the memory for them. The shapes in the graph tell the two apart. A tensor that holds
several columns one after the other looks as wide as one of them, so the bytes of the columns are limited too.
"""

from __future__ import annotations

import math
from itertools import chain

import tensorflow as tf

BATCH_SIZE = 2048
"""The rows of a call, as in the Evaluator."""
MOST_ROWS = 16_384
"""The most rows of a call, for small layers and narrow rows."""
SMALL_VALUES, SMALL_BYTES = 1 << 21, 1 << 22
"""More than BATCH_SIZE rows have at most so many values in the model's widest tensor, and bytes in the columns."""
BATCH_BYTES = 1 << 26
"""About how many bytes of examples are in a call: images are long."""
BATCH_VALUES = 1 << 22
"""About how many predictions come out of a call: there may be many classes."""

_SHAPES = "_output_shapes"
"""The attribute in which TensorFlow writes the shapes of an operation's results into a SavedModel."""


def rows_per_call(widest: int | None, length: int, outputs: int) -> int:
    """The most rows of a call: a power of two, or the fewer that long rows or many outputs leave.

    widest: the result of `values_per_row`; length: the bytes of a row's features; outputs: predictions for a row.
    """
    small = 0 if widest is None else min(MOST_ROWS, SMALL_VALUES // widest, SMALL_BYTES // max(1, length))
    rows = max(BATCH_SIZE, 1 << small.bit_length() >> 1)  # the power of two up to `small`
    return max(1, min(rows, BATCH_BYTES // max(1, length), BATCH_VALUES // max(1, outputs)))


def values_per_row(graph: tf.compat.v1.GraphDef) -> int | None:
    """The values for each row in the widest tensor that the graph and its functions compute, at least 1.

    Returns None if a shape is missing, or has further dimensions of unknown size, as those of a text's words have.
    """
    functions = (function.node_def for function in graph.library.function)
    widest = 1
    for node in chain(graph.node, *functions):
        if _SHAPES not in node.attr:
            return None
        for shape in node.attr[_SHAPES].list.shape:
            values = _values(shape)
            if values is None:
                return None
            widest = max(widest, values)
    return widest


def _values(shape: tf.compat.v1.TensorShape) -> int | None:
    """The values for each row of a tensor; 0 if the rows are no dimension of it."""
    known = [dimension.size for dimension in shape.dim if dimension.size >= 0]
    unknown = len(shape.dim) - len(known)
    values = math.prod(known)
    if shape.unknown_rank or unknown > 2 or (unknown == 2 and values > 1):
        return None
    return values if unknown else 0  # of [rows, values], the values of a column: within SMALL_BYTES as the column is
