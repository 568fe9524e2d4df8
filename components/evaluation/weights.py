"""The weight of each example of a batch, from the raw data column that `label.weight` names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.common.errors import RunError
from headrace.components.evaluation.metrics.accumulator import Array


def example_weights(batch: pa.RecordBatch, column: str, split: str) -> Array:
    """The weights, float64 [rows]; ones if `column` is "".

    Raises RunError unless every example has one number that is finite and not negative.
    """
    if not column:
        return np.ones(batch.num_rows)
    weights = np.full(batch.num_rows, np.nan)
    position = batch.schema.get_field_index(column)
    if position >= 0 and not pa.types.is_null(batch.schema.types[position]):
        lists = batch.column(position)
        lengths, values = np.asarray(lists.value_lengths().fill_null(0)), lists.flatten()
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            weights[lengths == 1] = np.asarray(values, np.float64)[np.repeat(lengths == 1, lengths)]
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise RunError(
            f"label.weight: column {column!r}, split {split}: {np.sum(wrong):,} of {len(wrong):,} examples read at once"
            f" have no valid weight (the first is {weights[wrong][0]:g}). A weight must be a number from 0 up: correct"
            " the column, or fill it in"
        )
    return weights
