"""The models, one file each. The class of a kind's settings names its builder.

A builder composes Keras layers over the features and returns a model that is not compiled:

    def build(features: ModelInputs, label: LabelConfig, model: ModelConfig) -> keras.Model
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from headrace.common.errors import ModelError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import ModelConfig
from headrace.trainer.columns import ModelInputs
from headrace.trainer.columns.base import ignore_input_names_warning

__all__ = ["ModelBuilder", "build"]

ModelBuilder = Callable[..., keras.Model]
"""The type of a builder. Its last parameter is the `model:` section of the builder's kind."""


def build(features: ModelInputs, label: LabelConfig, model: ModelConfig, *learned: Any) -> keras.Model:
    """Build the model that `model.kind` names. learned: what its builder takes besides, such as trees that are grown.

    Raises ModelError if the user's builder returns anything but a model with one output of shape
    [batch, label.num_classes].
    """
    builder: ModelBuilder = model.load_implementation()
    with ignore_input_names_warning():
        built = builder(features, label, model, *learned)
    if not isinstance(built, keras.Model):
        raise ModelError(
            f"model.kind: {model.kind} returned {type(built).__name__}, not a keras.Model. Build on Keras 3 (`import"
            " keras`), and return the model"
        )
    shape = tuple(getattr(built, "output_shape", ()))
    if shape != (None, label.num_classes):
        raise ModelError(
            f"model.kind: {model.kind} returned a model whose output has shape {shape}; a {label.kind} label needs one"
            f" output of shape (None, {label.num_classes})"
        )
    return built
