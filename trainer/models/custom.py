"""A model that the user's own function builds."""

from __future__ import annotations

import keras

from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import CustomModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.hooks import resolve


def build(features: ModelInputs, label: LabelConfig, model: CustomModel) -> keras.Model:
    """Call the function that `model.kind` names. Raises TrainingError if there is none, or if it raises an error."""
    built: keras.Model = resolve(model.kind, "model.kind")(features, label, model)
    return built
