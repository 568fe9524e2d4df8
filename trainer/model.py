"""The model that the config describes: built in the configured precision, and compiled with loss and metrics."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft
from numpy.typing import NDArray

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.train import Precision, TrainConfig
from headrace.trainer import adam, columns, models
from headrace.trainer.auc import Auc
from headrace.trainer.models.layers import label_variances
from headrace.trainer.optimizers import optimizer
from headrace.trainer.preprocessing import with_vocabulary
from headrace.trainer.sections import TrainerSections
from headrace.trainer.table_updates import TableUpdates
from headrace.trainer.task_losses import TaskLosses, TaskMetric
from headrace.trainer.tasks import tasks_of


def build_model(sections: TrainerSections, transform_output: tft.TFTransformOutput, *learned: Any) -> keras.Model:
    """Build the model with new weights. learned: as in `models.build`."""
    built = columns.build(sections.features)
    vocabulary_size = columns.vocabulary_size(transform_output)
    features = columns.ModelInputs(built, vocabulary_size, sections.model.embedding)
    label = with_vocabulary(sections.label, built, vocabulary_size)
    with precision_policy(sections.train.precision):
        model = models.build(features, label, sections.model, *learned)
    check_float32(model, sections.model.kind)
    return model


@contextlib.contextmanager
def precision_policy(precision: Precision) -> Iterator[None]:
    """Make the layers and models created inside compute in this precision; their weights are float32.

    Under mixed_float16 the loss is scaled when the model is compiled: Keras wraps the optimizer in one that checks for
    gradients that are not finite, skips their step and halves the scale.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def check_float32(model: keras.Model, kind: str) -> None:
    """Raise TrainingError unless the model predicts float32, which loss, metrics and users of the export expect."""
    dtype = keras.backend.standardize_dtype(model.output.dtype)
    if dtype != "float32":
        raise TrainingError(
            f'model.kind: {kind} returned a model that predicts {dtype}. Create its last layer with `dtype="float32"`,'
            " so that `train.precision` applies only to the layers before it, or set `train.precision: float32`"
        )


def describe_precision(precision: Precision) -> str:
    """Describe the precision for the training record."""
    if precision == "float32":
        return "float32"
    scaled = "; the loss is scaled" if precision == "mixed_float16" else ""
    return f"{precision}: layers compute in {precision[6:]}, weights and predictions are float32{scaled}"


def compile_model(
    model: keras.Model,
    label: LabelConfig,
    train: TrainConfig,
    steps_per_execution: int,
    batches: int | None = None,
) -> TableUpdates:
    """Compile the model for `fit`, and return how its embedding tables are updated.

    Raises TrainingError for an optimizer that Keras does not have, or that cannot update tables as the config says.

    batches: number of batches in the whole training, None if that is not known.
    """
    weighted = label.weight is not None or label.kind == "text"  # padding of a text has a weight of 0
    model.compile(
        optimizer=optimizer(train, batches),
        loss=loss(label, model=model),
        metrics=None if weighted else metrics(label),
        weighted_metrics=metrics(label) if weighted else None,
        steps_per_execution=steps_per_execution,
        jit_compile=train.jit == "on",  # auto: headrace.trainer.callbacks.jit may change it during training
    )
    adam.install(model.optimizer)
    tables = TableUpdates.install(model.optimizer, train)
    model.optimizer.build(model.trainable_variables)  # otherwise Keras traces the first step twice
    return tables


def loss(
    label: LabelConfig,
    reduction: Literal["sum_over_batch_size", "none"] = "sum_over_batch_size",
    model: keras.Model | None = None,
) -> keras.losses.Loss:
    """Cross-entropy of the predicted probabilities, or the squared error; of several tasks, their weighted sum.

    reduction: as in Keras; model: whose scales of regressions count, if there are several tasks.
    """
    if label.tasks is not None:
        variances = {} if model is None else label_variances(model, label)
        return TaskLosses(tasks_of(label), variances, functools.partial(loss, reduction="none"), reduction)
    if label.kind in ("binary", "multilabel"):
        return keras.losses.BinaryCrossentropy(reduction=reduction)
    if label.kind in ("multiclass", "next_word", "text"):
        return keras.losses.SparseCategoricalCrossentropy(reduction=reduction)
    return keras.losses.MeanSquaredError(reduction=reduction)


EVALUATED = 100_000
"""Maximum number of examples whose losses `losses_on` computes."""


def losses_on(model: keras.Model, batches: tf.data.Dataset, label: LabelConfig) -> NDArray[np.float32]:
    """float32 [examples]: the losses of the first EVALUATED examples of batches of features, label and perhaps weights.

    Their mean is the eval loss of an epoch: a weighted example has its loss times its weight.
    """
    of_label = loss(label, "none", model)

    @tf.function(autograph=False, reduce_retracing=True)
    def of_batch(features: Any, y: Any, *weight: Any) -> Any:
        one = y if label.kind in ("multilabel", "multitask") else tf.reshape(y, (-1, 1))
        return of_label(one, model(features, training=False), *weight)

    found, count = [np.zeros(0, np.float32)], 0
    for features, y, *weight in batches:
        found.append(of_batch(features, y, *weight).numpy().astype(np.float32))
        count += len(found[-1])
        if count >= EVALUATED:
            break
    return np.concatenate(found)[:EVALUATED]


def metrics(label: LabelConfig) -> list[keras.metrics.Metric]:
    """The metrics of each epoch besides the loss; the names are those of `evaluate.metrics`."""
    if label.tasks is not None:
        return [TaskMetric(task, one) for task in tasks_of(label) for one in metrics(task.label)]
    if label.kind == "binary":
        return [Auc(), keras.metrics.BinaryAccuracy(name="binary_accuracy")]
    if label.kind == "multilabel":
        return [Auc("micro_auc")]  # over all pairs of an example and a class
    if label.kind == "multiclass":
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    if label.kind in ("next_word", "text"):
        return [KnownWords(1, name="accuracy"), KnownWords(5, name="top_5_accuracy"), Perplexity(name="perplexity")]
    return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]


@keras.saving.register_keras_serializable("headrace")
class KnownWords(keras.metrics.Mean):
    """Top-k accuracy of the next word. A word outside the vocabulary, the last class, never counts as predicted."""

    def __init__(self, k: int, name: str = "known_words", **settings: Any) -> None:
        super().__init__(name=name, **settings)
        self.k = k

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """y_true: int64 [batch] class ids; y_pred: float32 [batch, classes]."""
        y_true = keras.ops.reshape(y_true, (-1,))
        predicted = keras.ops.in_top_k(y_true, y_pred, k=min(self.k, y_pred.shape[-1]))
        known = keras.ops.not_equal(y_true, y_pred.shape[-1] - 1)
        super().update_state(keras.ops.cast(keras.ops.logical_and(predicted, known), self.dtype), sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "k": self.k}


@keras.saving.register_keras_serializable("headrace")
class Perplexity(keras.metrics.Mean):
    """The exponential of the mean cross-entropy: the number of equally probable words that would be as uncertain."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """y_true: int64 [batch] class ids; y_pred: float32 [batch, classes]."""
        entropy = keras.ops.sparse_categorical_crossentropy(keras.ops.reshape(y_true, (-1,)), y_pred)
        super().update_state(entropy, sample_weight)

    def result(self) -> Any:
        """The perplexity over all examples so far."""
        return keras.ops.exp(super().result())
