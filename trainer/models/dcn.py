"""`model.kind: dcn`: a cross network with dense layers (DCN-V2: Wang et al. 2021, arXiv:2008.13535)."""

from __future__ import annotations

from typing import Any

import keras

from headrace.common.errors import ModelError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import DcnModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.models.layers import head, logits, tower


def build(features: ModelInputs, label: LabelConfig, model: DcnModel) -> keras.Model:
    """Build the model, not compiled. Raises ModelError if no feature is meant for the deep part."""
    x0 = features.deep()
    if x0 is None:
        raise ModelError("model.kind: dcn has nothing to learn from: every feature has `deep: false`")
    crossed = x0
    for position in range(1, model.cross_layers + 1):
        crossed = Cross(model.rank, name=f"cross_{position}")([x0, crossed])
    if model.structure == "stacked":
        scores = logits(tower(crossed, model), label)
    else:
        parts = [crossed, tower(x0, model)] if model.hidden else [crossed]
        scores = logits(keras.layers.Concatenate(name="joined")(parts) if len(parts) > 1 else crossed, label)
    return keras.Model(features.inputs, head(scores, label), name="dcn")


@keras.saving.register_keras_serializable("headrace")
class Cross(keras.layers.Layer):
    """x0 * (W x + b) + x: two tensors [batch, width] → [batch, width].

    With a rank, W is the product of a [width, rank] and a [rank, width] matrix.
    """

    def __init__(self, rank: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.rank = rank

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rank": self.rank}

    def build(self, input_shape: list[tuple[int | None, ...]]) -> None:
        """Initialize W as a dense layer's kernel, b with zeros."""
        width = input_shape[0][-1]
        if self.rank is None:
            self.kernels = [self.add_weight(shape=(width, width), name="kernel")]
        else:
            self.kernels = [
                self.add_weight(shape=(width, self.rank), name="down"),
                self.add_weight(shape=(self.rank, width), name="up"),
            ]
        self.bias = self.add_weight(shape=(width,), initializer="zeros", name="bias")

    def call(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """inputs: x0 and x."""
        x0, x = inputs
        projected = x
        for kernel in self.kernels:
            projected = keras.ops.matmul(projected, kernel)
        return x0 * (projected + self.bias) + x
