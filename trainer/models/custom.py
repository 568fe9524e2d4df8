"""A model that the user's own function builds."""

from __future__ import annotations

import keras
import tensorflow as tf

from headrace.common.errors import ModelError, TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import CustomModel
from headrace.trainer.columns import ModelInputs
from headrace.trainer.hooks import resolve
from headrace.trainer.pretrained import describe_tensor


def build(features: ModelInputs, label: LabelConfig, model: CustomModel) -> keras.Model:
    """Call the function that `model.kind` names.

    Raises TrainingError if there is none, or if it raises an error; ModelError if it may not take the features.
    """
    function = resolve(model.kind, "model.kind")
    try:
        built: keras.Model = function(features, label, model)
    except TrainingError as error:
        if not isinstance(error.__cause__, ValueError | TypeError | tf.errors.InvalidArgumentError):
            raise
        got = ", ".join(f"`{name}` {describe_tensor(each)}" for name, each in features.inputs.items())
        way = "Let the function use them as they are, or change the features"
        raise ModelError(f"{error}. The function got the inputs {got}. {way}") from error.__cause__
    return built
