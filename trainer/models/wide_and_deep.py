"""`model.kind: wide_and_deep`: a linear model and a deep one, added up (Cheng et al. 2016, arXiv:1606.07792)."""

from __future__ import annotations

import keras

from headrace.common.errors import ModelError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import WideAndDeepModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.models.layers import head, logits, tower


def build(features: ModelInputs, label: LabelConfig, model: WideAndDeepModel) -> keras.Model:
    """Build the model, not compiled: the sum of the logits of both parts, as far as they have features.

    All logits start at zero. So the model begins as a linear one, and the deep part learns what that leaves over. From
    random logits, a small table's few steps are spent on unlearning them. Raises ModelError if no part has features.
    """
    deep = features.deep()
    parts = [part for part in (features.wide(label.num_classes), _wide_numbers(features, label)) if part is not None]
    if deep is not None:
        parts.append(logits(tower(deep, model), label, name="deep_logits", initializer="zeros"))
    if not parts:
        raise ModelError(
            "model.kind: wide_and_deep has nothing to learn from: every feature has `deep: false` and `wide: false`"
        )
    scores = parts[0] if len(parts) == 1 else keras.layers.Add(name="logits")(parts)
    return keras.Model(features.inputs, head(scores, label), name="wide_and_deep")


def _wide_numbers(features: ModelInputs, label: LabelConfig) -> keras.KerasTensor | None:
    """A linear model over the numbers, float32 [batch, label.num_classes]. The deep part's logits have the bias."""
    numbers = features.numbers(name="linear_numbers")
    if numbers is None:
        return None
    layer = keras.layers.Dense(label.num_classes, use_bias=False, kernel_initializer="zeros", name="wide_numbers")
    return layer(numbers)
