"""What a model is trained towards: loss, metrics and optimizer for a kind of label."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import keras

from configs.label import LabelConfig
from configs.train import TrainConfig
from trainer.nearest import unknown


def compile_model(model: keras.Model, label: LabelConfig, train: TrainConfig, steps_per_execution: int) -> None:
    """Set the model up for `fit`. Raises TrainingError for an optimizer that Keras does not have."""
    model.compile(
        optimizer=optimizer(train.optimizer, train.learning_rate),
        loss=loss(label),
        metrics=metrics(label),
        steps_per_execution=steps_per_execution,
        jit_compile=False,  # slower on a CPU for models of this size
    )
    model.optimizer.build(model.trainable_variables)  # else Keras traces the first step twice


def loss(label: LabelConfig) -> keras.losses.Loss:
    """Cross-entropy of the predicted probabilities, or the squared error."""
    if label.kind == "binary":
        return keras.losses.BinaryCrossentropy()
    if label.kind == "multiclass":
        return keras.losses.SparseCategoricalCrossentropy()
    return keras.losses.MeanSquaredError()


def metrics(label: LabelConfig) -> list[keras.metrics.Metric]:
    """What is reported for each epoch beside the loss; the names are those of `evaluate.metrics`."""
    if label.kind == "binary":
        return [keras.metrics.AUC(name="auc"), keras.metrics.BinaryAccuracy(name="binary_accuracy")]
    if label.kind == "multiclass":
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]


def optimizer(name: str, learning_rate: float) -> keras.optimizers.Optimizer:
    """The Keras optimizer of that name, in any case. Raises TrainingError, with the nearest names, if there is none."""
    known: dict[str, Callable[..., keras.optimizers.Optimizer]] = {
        known.lower(): kind
        for known, kind in vars(keras.optimizers).items()
        if inspect.isclass(kind) and known not in ("Optimizer", "LossScaleOptimizer")
    }
    if name.lower() not in known:
        raise unknown("train.optimizer", name, known)
    return known[name.lower()](learning_rate=learning_rate)
