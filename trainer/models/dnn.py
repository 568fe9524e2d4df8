"""`model.kind: dnn`: dense layers over numbers and embeddings."""

from __future__ import annotations

import keras

from headrace.common.errors import ModelError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import DnnModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.models.layers import head, logits, tower


def build(features: ModelInputs, label: LabelConfig, model: DnnModel) -> keras.Model:
    """Build the model, not compiled. Raises ModelError if no feature is meant for the deep part."""
    deep = features.deep()
    if deep is None:
        raise ModelError("model.kind: dnn has nothing to learn from: every feature has `deep: false`")
    return keras.Model(features.inputs, head(logits(tower(deep, model), label), label), name="dnn")
