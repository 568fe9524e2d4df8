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
from headrace.trainer.tasks import tasks_of

if TYPE_CHECKING:
    from headrace.trainer.input.pipeline import InputSplit

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
"""Maximum number of batches from which the label's mean and standard deviation are computed."""


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
        parts = [head(scores[:, each.outputs], each.label, each.name) for each in tasks_of(label)]
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


def adapt_scale(model: keras.Model, train: InputSplit, label: LabelConfig | None = None) -> None:
    """Set the scales of regressions from the labels of the train split, if the model has such heads."""
    layers = {layer.name: layer for layer in model.layers if isinstance(layer, keras.layers.Normalization)}
    labels = train.peek.take(SCALE_BATCHES).map(lambda _, label, *_weight: label)
    if SCALE_LAYER in layers:
        layers[SCALE_LAYER].adapt(labels.map(lambda label: tf.reshape(label, [-1, 1])))
    for task in tasks_of(label) if label is not None else ():
        if head_name(task.name) in layers:
            own = labels.map(lambda label, place=task.places: _known(label[:, place]))
            layers[head_name(task.name)].adapt(own.filter(lambda label: tf.size(label) > 0))


def _known(labels: tf.Tensor) -> tf.Tensor:
    """The labels that are not masked: [examples, 1]."""
    return tf.boolean_mask(labels, ~tf.math.is_nan(labels[:, 0]))


def label_variances(model: keras.Model, label: LabelConfig) -> dict[str, float]:
    """The variance of the labels of each regression among several tasks, by which its head scales."""
    layers = {layer.name: layer for layer in model.layers if isinstance(layer, keras.layers.Normalization)}
    scales = {task.name: layers.get(head_name(task.name)) for task in tasks_of(label)}
    return {name: float(ops.sum(layer.variance)) for name, layer in scales.items() if layer is not None}


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
