"""What a model is trained towards: loss, metrics and optimizer for a kind of label."""

from __future__ import annotations

import keras

from headrace.configs.label import LabelConfig
from headrace.configs.train import TrainConfig
from headrace.trainer.gradients import add_up_repeats
from headrace.trainer.optimizers import optimizer
from headrace.trainer.word_metrics import KnownWords, Perplexity


def compile_model(
    model: keras.Model,
    label: LabelConfig,
    train: TrainConfig,
    steps_per_execution: int,
    batches: int | None = None,
) -> None:
    """Set the model up for `fit`. Raises TrainingError for an optimizer that Keras does not have.

    batches: in the whole training, None where that is not known.
    """
    model.compile(
        optimizer=optimizer(train, batches),
        loss=loss(label),
        metrics=metrics(label),
        steps_per_execution=steps_per_execution,
        jit_compile=train.jit == "on",  # auto: headrace.trainer.callbacks.jit may change it on the way
    )
    add_up_repeats(model.optimizer)
    model.optimizer.build(model.trainable_variables)  # else Keras traces the first step twice


def loss(label: LabelConfig) -> keras.losses.Loss:
    """Cross-entropy of the predicted probabilities, or the squared error."""
    if label.kind == "binary":
        return keras.losses.BinaryCrossentropy()
    if label.kind in ("multiclass", "next_word"):
        return keras.losses.SparseCategoricalCrossentropy()
    return keras.losses.MeanSquaredError()


def metrics(label: LabelConfig) -> list[keras.metrics.Metric]:
    """What is reported for each epoch beside the loss; the names are those of `evaluate.metrics`."""
    if label.kind == "binary":
        return [keras.metrics.AUC(name="auc"), keras.metrics.BinaryAccuracy(name="binary_accuracy")]
    if label.kind == "multiclass":
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    if label.kind == "next_word":
        return [KnownWords(1, name="accuracy"), KnownWords(5, name="top_5_accuracy"), Perplexity(name="perplexity")]
    return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]
