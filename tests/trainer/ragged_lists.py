"""Ragged tensors as nested lists, by NumPy: `RaggedTensor.to_list` runs several operations for each row."""

from __future__ import annotations

import itertools
from typing import Any

import tensorflow as tf


def lists_of(values: tf.Tensor | tf.RaggedTensor) -> list[Any]:
    """The rows as `to_list` gives them."""
    if not isinstance(values, tf.RaggedTensor):
        found: list[Any] = values.numpy().tolist()
        return found
    inner, ends = lists_of(values.values), values.row_splits.numpy().tolist()
    return [inner[start:end] for start, end in itertools.pairwise(ends)]
