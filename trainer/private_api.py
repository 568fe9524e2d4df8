"""Every place where the Trainer reaches behind the public API of TensorFlow or Keras, since that has no way to do it.

These may change with any version; a test names those that they were written after.
"""

from __future__ import annotations

from typing import Any

import keras
from keras.src.backend.common import global_state
from tensorflow.python.eager.cancellation import CancellationManager

__all__ = ["WRITTEN_AFTER", "CancellationManager", "averages", "build", "global_seeds", "leave_gradients", "made_seeds"]

WRITTEN_AFTER = {"tensorflow": "2.21", "keras": "3.15"}
_SEEDS = "global_seed_generator"


def averages(optimizer: keras.optimizers.Optimizer) -> list[Any]:
    """The variables that hold the moving averages of the weights, in the order of the weights."""
    return list(optimizer._model_variables_moving_average)


def leave_gradients(optimizer: keras.optimizers.Optimizer) -> None:
    """Keep an optimizer from adding up the gradients of the replicas, which Keras does late."""
    optimizer._all_reduce_sum_gradients = list


def build(model: keras.Model, batch: Any) -> None:
    """Make the variables of a compiled model's metrics, which Keras does at the first step."""
    model._symbolic_build(data_batch=batch)


def global_seeds() -> keras.random.SeedGenerator | None:
    """What layers without a generator of their own draw from; None before anything was drawn."""
    return global_state.get_global_attribute(_SEEDS)


def made_seeds() -> keras.random.SeedGenerator:
    """The same, made where there is none."""
    seeds = global_seeds()
    if seeds is None:
        seeds = keras.random.SeedGenerator(seed=0, name=_SEEDS)
        global_state.set_global_attribute(_SEEDS, seeds)
    return seeds
