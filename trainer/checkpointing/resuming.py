"""Beginning Keras' `fit` in the middle of an epoch."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from headrace.trainer import private_api
from headrace.trainer.checkpointing.checkpoints import Position


def pass_over(model: keras.Model, position: Position) -> None:
    """Let the first executions of `fit` do nothing, those of the batches that are done: its counts, and what callbacks
    are told, are then those of a training that was never interrupted. The data has to begin behind them.
    """
    model.make_train_function()
    real = model.train_function
    left = -(-position.step // model.steps_per_execution)

    def function(iterator: Any) -> Any:  # noqa: ARG001
        nonlocal left
        if not left:  # the epoch was over, and Keras asks for one more batch to find that out
            raise StopIteration
        left -= 1
        if not left and not position.evaluating:
            model.train_function = real
        return model.get_metrics_result()

    function.real = real  # type: ignore[attr-defined]
    model.train_function = function


def go_on(model: keras.Model) -> None:
    """End the passing over, where an epoch's end did not."""
    model.train_function = getattr(model.train_function, "real", model.train_function)


def build_metrics(model: keras.Model, batches: tf.data.Dataset) -> None:
    """Make the variables of the metrics, which Keras does at the first step, too late to restore them."""
    private_api.build(model, next(iter(batches.take(1))))
