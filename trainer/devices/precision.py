"""`train.precision`: in which numbers layers compute."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras

from headrace.configs.devices import Precision
from headrace.configs.errors import TrainingError


@contextlib.contextmanager
def computing_in(precision: Precision) -> Iterator[None]:
    """Layers and models made inside compute in that precision; their weights are float32.

    A model made so under mixed_float16 scales its loss when it is compiled: Keras wraps the optimizer into one that
    looks for gradients that are not finite, passes their step over and halves the scale.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def check_float32(model: keras.Model, kind: str) -> None:
    """Raise TrainingError unless the model predicts float32, which loss, metrics and callers of the export expect."""
    dtype = keras.backend.standardize_dtype(model.output.dtype)
    if dtype != "float32":
        raise TrainingError(
            f'model.kind: {kind} returned a model that predicts {dtype}. Give its last layer `dtype="float32"`, so'
            " that `train.precision` changes the layers before it alone, or set `train.precision: float32`"
        )


def in_words(precision: Precision) -> str:
    """For the training record."""
    if precision == "float32":
        return "float32"
    scaled = "; the loss is scaled" if precision == "mixed_float16" else ""
    return f"{precision}: layers compute in {precision[6:]}, weights and predictions are float32{scaled}"
