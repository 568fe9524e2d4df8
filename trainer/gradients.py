"""Gradients of embedding tables as optimizers take them for granted: one number for each weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

LARGEST = 1 << 24
"""Weights of a table whose gradient is made dense, at most."""


def add_up_repeats(optimizer: keras.optimizers.Optimizer) -> None:
    """Make a new optimizer add up what several examples of a batch say of the same row of a table.

    TensorFlow gives the gradient of a look-up as a list of rows, in which a category comes up once for each example.
    Keras 3 hands the list on, and an optimizer that squares gradients, such as Adam, then sums the squares of the parts
    where it needs the square of the sum: each row learns at a rate that depends on how often it is in the batch, and on
    how the batch is divided among devices. Larger tables than LARGEST are left to Keras.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    apply = inner.apply

    def apply_sums(gradients: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        variables = trainable_variables or [None] * len(gradients)
        apply([_summed(*pair) for pair in zip(gradients, variables, strict=True)], trainable_variables)

    inner.apply = apply_sums


def _summed(gradient: Any, variable: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    too_large = variable is not None and math.prod(variable.shape) > LARGEST
    return gradient if too_large else tf.convert_to_tensor(gradient)
