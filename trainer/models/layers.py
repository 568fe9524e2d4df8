"""Parts that models share: the dense tower, and the head that turns its logits into predictions."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import keras
import tensorflow as tf
from keras import ops

from headrace.common.errors import ModelError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import ModelBase
from headrace.trainer.hooks import unknown_name
from headrace.trainer.task_losses import JoinedPredictions
from headrace.trainer.tasks import known, tasks_of

if TYPE_CHECKING:
    from headrace.trainer.input.batches import InputSplit

ACTIVATIONS = {
    "binary": "sigmoid",
    "multilabel": "sigmoid",
    "multiclass": "softmax",
    "next_word": "softmax",
    "text": "softmax",
}
"""Activation of the model's output for each kind of label with classes."""

PROBE_SHAPE = (2, 4)
"""Shape of the tensor with which an activation is tried."""

SCALE_LAYER = "predictions"
"""Name of the last layer, which scales a regression's predictions."""
SCALE_BATCHES = 1000
"""Maximum number of batches with labels from which the label's mean and standard deviation are computed."""


def tower(x: keras.KerasTensor, model: ModelBase) -> keras.KerasTensor:
    """Dense layers of `model.hidden` units, first to last, each with its activation and dropout."""
    check_activation(model.activation)
    for position, units in enumerate(model.hidden, start=1):
        x = keras.layers.Dense(units, activation=model.activation, name=f"hidden_{position}")(x)
        if model.dropout:
            x = keras.layers.Dropout(model.dropout, name=f"dropout_{position}")(x)
    return x


def logits(
    x: keras.KerasTensor, label: LabelConfig, name: str = "logits", initializer: str = "glorot_uniform"
) -> keras.KerasTensor:
    """Linear layer: float32 [batch, label.num_classes]. initializer: Keras name of that of its kernel."""
    return keras.layers.Dense(label.num_classes, kernel_initializer=initializer, name=name)(x)


def head(scores: keras.KerasTensor, label: LabelConfig, task: str = "") -> keras.KerasTensor:
    """float32 [batch, label.num_classes]: probabilities of classes, or a regression's numbers on the label's scale.

    Of several labels, those of each task side by side. task: the name of the one that this is the head of.
    """
    if label.tasks is not None:
        parts = [head(scores[:, each.output_slice], each.label, each.name) for each in tasks_of(label)]
        return JoinedPredictions([*label.tasks], dtype="float32", name=SCALE_LAYER)(parts)
    if label.kind == "regression":
        return unscale(scores, head_name(task))
    return keras.layers.Activation(ACTIVATIONS[label.kind], dtype="float32", name=head_name(task))(scores)


def head_name(task: str) -> str:
    """The name of a head's last layer; task: "" for the only label."""
    return f"{task}_{SCALE_LAYER}" if task else SCALE_LAYER


def unscale(scores: keras.KerasTensor, name: str = SCALE_LAYER) -> keras.KerasTensor:
    """Scores around 0 to predictions on the label's scale, float32 [batch, 1].

    The head of a regression is an inverted `Normalization` layer, predictions = mean + scores * standard deviation, so
    that the model need not learn the label's scale. It is the identity until `adapt_scale` is called.
    """
    return keras.layers.Normalization(axis=-1, invert=True, dtype="float32", name=name)(scores)


def adapt_scale(model: keras.Model, train: InputSplit, label: LabelConfig) -> None:
    """Set the scales of regressions from the labels of the train split, if the model has such heads.

    Batches without a label of the task do not count. If there are no others, the head stays the identity.
    """
    slices = {task.name: task.label_slice for task in tasks_of(label)} or {"": slice(0, 1)}
    for name, layer in _scale_layers(model, label).items():
        labels = train.peek.map(lambda _, label, *_weight, own=slices[name]: _column(label, own))
        seen = labels.filter(lambda label: tf.size(label) > 0).take(SCALE_BATCHES)
        if any(True for _ in seen.take(1)):
            layer.adapt(seen)


def _column(labels: tf.Tensor, own: slice) -> tf.Tensor:
    """The labels of a regression that are not masked: [examples, 1]. own: the task's among joined labels."""
    return tf.reshape(known(tf.reshape(labels, [tf.shape(labels)[0], -1])[:, own]), [-1, 1])


def label_variances(model: keras.Model, label: LabelConfig) -> dict[str, float]:
    """The variance of the labels of each regression, by which its head scales, by the name of the task."""
    return {name: float(ops.sum(layer.variance)) for name, layer in _scale_layers(model, label).items()}


def _scale_layers(model: keras.Model, label: LabelConfig) -> dict[str, keras.layers.Normalization]:
    """The layers that scale predictions, by the name of the task; "" for the only label."""
    layers = {layer.name: layer for layer in model.layers if isinstance(layer, keras.layers.Normalization)}
    return {name: layers[head_name(name)] for name in label.parts if head_name(name) in layers}


def check_activation(name: str) -> None:
    """Raise ModelError unless Keras has an activation of that name, and it keeps the shape of its input."""
    try:
        activation = keras.activations.get(name)
    except ValueError:
        known = [known for known, value in vars(keras.activations).items() if inspect.isfunction(value)]
        unknown = unknown_name("model.activation", name, set(known) - {"get", "serialize", "deserialize"})
        raise ModelError(str(unknown)) from None
    try:
        found = tuple(activation(keras.ops.zeros(PROBE_SHAPE)).shape)
    except TypeError as error:
        raise ModelError(
            f"model.activation: {name} takes more than a tensor ({error}); choose another one, such as relu"
        ) from error
    if found != PROBE_SHAPE:
        raise ModelError(
            f"model.activation: {name} makes a tensor of shape {list(found)} out of one of shape {list(PROBE_SHAPE)},"
            " and an activation must keep the shape; choose another one, such as relu"
        )
