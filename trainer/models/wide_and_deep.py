"""`model.kind: wide_and_deep`: a linear model and a deep one, added up (Cheng et al. 2016, arXiv:1606.07792)."""

from __future__ import annotations

import keras

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import WideAndDeepModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.models.layers import head, logits, tower


def build(features: ModelInputs, label: LabelConfig, model: WideAndDeepModel) -> keras.Model:
    """Build the model, not compiled: the sum of both parts' logits, or the one part that has features.

    Raises TrainingError if neither has any.
    """
    deep, wide = features.deep(), features.wide(label.num_classes)
    parts = [] if wide is None else [wide]
    if deep is not None:
        parts.append(logits(tower(deep, model), label, name="deep_logits"))
    if not parts:
        raise TrainingError(
            "model.kind: wide_and_deep has nothing to learn from: every feature has `deep: false` and `wide: false`"
        )
    scores = parts[0] if len(parts) == 1 else keras.layers.Add(name="logits")(parts)
    return keras.Model(features.inputs, head(scores, label), name="wide_and_deep")
