"""The scale of a regression's label, so that a model need not learn it.

The head of a regression model is a Keras `Normalization` layer turned around: predictions = mean + scores * standard
deviation. Both are taken from the train split before training; the model then learns scores around 0.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from headrace.trainer.input.pipeline import Split

LAYER = "predictions"
BATCHES = 1000
"""Batches that the mean and the standard deviation are taken from, at most."""


def unscale(scores: keras.KerasTensor) -> keras.KerasTensor:
    """Scores around 0 to predictions on the label's scale, float32 [batch, 1]; as they are until `adapt` is called."""
    return keras.layers.Normalization(axis=-1, invert=True, dtype="float32", name=LAYER)(scores)


def adapt(model: keras.Model, train: Split) -> None:
    """Set the scale from the labels of the train split, where the model has such a layer."""
    layers = [layer for layer in model.layers if isinstance(layer, keras.layers.Normalization) and layer.name == LAYER]
    for layer in layers:
        labels = train.peek.take(BATCHES)
        layer.adapt(labels.map(lambda _, label: tf.reshape(label, [-1, 1])))
