"""`model.kind: linear`: a weight for each number and for each category."""

from __future__ import annotations

import keras

from headrace.common.errors import ModelError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import LinearModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.models.layers import head, logits


def build(features: ModelInputs, label: LabelConfig, model: LinearModel) -> keras.Model:  # noqa: ARG001 - all have it
    """Build the model, not compiled: one sum of the weights of both, and a bias. All weights start at zero.

    Raises ModelError if no feature is a number or has `wide: true`.
    """
    numbers, categories = features.numbers(), features.wide(label.num_classes)
    if numbers is None and categories is None:
        raise ModelError("model.kind: linear has nothing to learn from: no number, and no category has `wide: true`")
    parts = [] if categories is None else [Bias(name="bias")(categories)] if numbers is None else [categories]
    if numbers is not None:
        parts.append(logits(numbers, label, initializer="zeros"))
    scores = parts[0] if len(parts) == 1 else keras.layers.Add(name="sum")(parts)
    return keras.Model(features.inputs, head(scores, label), name="linear")


@keras.saving.register_keras_serializable("headrace")
class Bias(keras.layers.Layer):
    """x + b: [batch, width] → [batch, width]. The logits of categories alone have no bias."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Initialize b with zeros."""
        self.bias = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="bias")

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        return inputs + self.bias
