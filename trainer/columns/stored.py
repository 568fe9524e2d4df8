"""Features that Transform writes in another form than the model takes: images, whose pixels are written as bytes.

load = loader(columns)                      # features as they are written → as the model takes them
model = from_stored(model, columns)         # the same model on features as they are written
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from headrace.trainer.columns.base import Column, inputs_named_apart
from headrace.trainer.columns.image import ImageColumn

Features = dict[str, Any]
"""Tensors by the names of the features."""


def loader(columns: Mapping[str, Column]) -> Callable[[Features], Features] | None:
    """The step from what Transform wrote to what the model takes, for the input pipeline; None where there is none."""
    layers = _layers(columns)
    if not layers:
        return None
    return lambda features: {**features, **{name: layer.call(features[name]) for name, layer in layers.items()}}


def from_stored(model: keras.Model, columns: Mapping[str, Column]) -> keras.Model:
    """The model with that step before it, for the export; itself where there is nothing to do."""
    layers = _layers(columns)
    if not layers:
        return model
    inputs = {name: x for name, x in model.input.items() if name not in layers}
    given = {name: keras.Input(shape=(), name=columns[name].input_name, dtype=tf.string) for name in layers}
    loaded = {name: layer(given[name]) for name, layer in layers.items()}
    with inputs_named_apart():
        return keras.Model({**inputs, **given}, model({**inputs, **loaded}), name=f"{model.name}_of_stored")


def _layers(columns: Mapping[str, Column]) -> dict[str, keras.layers.Layer]:
    return {name: column.loader() for name, column in columns.items() if isinstance(column, ImageColumn)}
