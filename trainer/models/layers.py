"""The parts that the models share: the dense tower, and the head that turns its logits into predictions."""

from __future__ import annotations

import inspect

import keras

from headrace.configs.errors import TrainingError
from headrace.configs.label import LabelConfig
from headrace.configs.models import ModelBase
from headrace.trainer.label_scale import unscale
from headrace.trainer.nearest import unknown

HEADS = {"binary": "sigmoid", "multiclass": "softmax", "next_word": "softmax"}
"""For each kind of classes the activation of the model's output."""

SHAPE = (2, 4)
"""Of what an activation is tried with."""


def tower(x: keras.KerasTensor, model: ModelBase) -> keras.KerasTensor:
    """Dense layers of `model.hidden` units, first to last, each with its activation and dropout."""
    check_activation(model.activation)
    for position, units in enumerate(model.hidden, start=1):
        x = keras.layers.Dense(units, activation=model.activation, name=f"hidden_{position}")(x)
        if model.dropout:
            x = keras.layers.Dropout(model.dropout, name=f"dropout_{position}")(x)
    return x


def logits(x: keras.KerasTensor, label: LabelConfig, name: str = "logits") -> keras.KerasTensor:
    """float32 [batch, label.num_classes]: a linear layer."""
    return keras.layers.Dense(label.num_classes, name=name)(x)


def head(scores: keras.KerasTensor, label: LabelConfig) -> keras.KerasTensor:
    """float32 [batch, label.num_classes]: probabilities for classes, numbers on the label's scale for a regression."""
    if label.kind == "regression":
        return unscale(scores)
    return keras.layers.Activation(HEADS[label.kind], dtype="float32", name="predictions")(scores)


def check_activation(name: str) -> None:
    """Raise TrainingError, with the nearest names, unless Keras has an activation of that name; and for one that does
    not give a number for each that it takes.
    """
    try:
        activation = keras.activations.get(name)
    except ValueError:
        known = [known for known, value in vars(keras.activations).items() if inspect.isfunction(value)]
        raise unknown("model.activation", name, set(known) - {"get", "serialize", "deserialize"}) from None
    try:
        found = tuple(activation(keras.ops.zeros(SHAPE)).shape)
    except TypeError as error:
        raise TrainingError(f"model.activation: {name} takes more than a tensor ({error}); take relu, say") from error
    if found != SHAPE:
        what = f"makes a tensor of shape {list(found)} out of one of shape {list(SHAPE)}"
        raise TrainingError(f"model.activation: {name} {what}, and an activation must keep the shape; take relu, say")
