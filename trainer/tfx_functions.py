"""The functions of an existing TFX pipeline, called as TFX calls them: its preprocessing_fn and its run_fn.

Transform and Trainer call the two functions here, which call the user's and check what they return and write.
"""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
import tensorflow_transform as tft

from headrace.common.errors import TrainingError
from headrace.common.names import did_you_mean_or_list
from headrace.configs.schema.features import PreprocessingFunction
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import RunFnModel
from headrace.trainer.columns.raw import RawTensor
from headrace.trainer.description import ModelDescription, stored_types
from headrace.trainer.hooks import resolve
from headrace.trainer.served_model import ModelCall
from headrace.trainer.v1_loader import save_again, variables_not_found

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs

logger = logging.getLogger(__name__)

PREPROCESSING, TRAINING = "preprocessing", "training"
"""Entries of `custom_config`: PreprocessingFunction and RunFnModel as JSON."""
LABEL, LABEL_KEY, KEYS = "label", "label_key", "keys"
"""Entries of `custom_config`: LabelConfig as JSON, the label's name among the transformed features, and the data
columns that the preprocessing_fn receives (None for all)."""
FUNCTION, RUN_FN = "features.function", "model.run_fn"

OUTPUTS = (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)


def preprocessing_fn(inputs: Mapping[str, RawTensor], custom_config: Mapping[str, str]) -> dict[str, RawTensor]:
    """Call the user's preprocessing_fn. Raises TrainingError if it fails, or does not return the label.

    inputs: the data columns by name, sparse [batch, values], or dense if the schema fixes their shape.
    """
    settings = PreprocessingFunction.model_validate_json(custom_config[PREPROCESSING])
    label = LabelConfig.model_validate_json(custom_config[LABEL])
    function = resolve(settings.function, FUNCTION)
    given = DataColumns(inputs, settings.keys and (*settings.keys, label.key))
    takes_config = "custom_config" in inspect.signature(function).parameters
    outputs = function(given, **({"custom_config": dict(settings.custom_config)} if takes_config else {}))
    _check_outputs(outputs, settings, custom_config[LABEL_KEY])
    return dict(outputs)


def run_fn(fn_args: FnArgs) -> None:
    """Call the user's run_fn, and check the SavedModel that it wrote.

    If TensorFlow Serving could not load the SavedModel, it is saved again. Raises TrainingError if the function fails,
    or the Evaluator could not evaluate the model.
    """
    settings = RunFnModel.model_validate_json(fn_args.custom_config[TRAINING])
    label = LabelConfig.model_validate_json(fn_args.custom_config[LABEL])
    given = copy.copy(fn_args)
    given.custom_config = dict(settings.custom_config)
    keras.utils.set_random_seed(settings.seed)
    resolve(settings.run_fn, RUN_FN)(given)
    _check_model(fn_args.serving_model_dir, settings, label, fn_args.custom_config[LABEL_KEY])
    types = stored_types(tft.TFTransformOutput(fn_args.transform_graph_path).raw_feature_spec())
    keys = fn_args.custom_config.get(KEYS) or list(types)
    ModelDescription(
        label=label,
        types=types,
        features=tuple(name for name in keys if name != label.key),
        signature=settings.signature_name,
        preprocessing=settings.preprocessing_function_name,
        prediction_key=settings.prediction_key,
    ).write(Path(fn_args.serving_model_dir))


def model_call(settings: RunFnModel, label_key: str) -> ModelCall:
    """What the Evaluator calls of a model that the user's run_fn wrote."""
    return ModelCall(label_key, settings.signature_name, settings.preprocessing_function_name, settings.prediction_key)


class DataColumns(dict[str, RawTensor]):
    """The data columns that the user's function receives. Raises TrainingError for one that is not there."""

    def __init__(self, inputs: Mapping[str, RawTensor], keys: tuple[str, ...] | None) -> None:
        self._keys = keys
        if missing := [name for name in keys or () if name not in inputs]:
            known = did_you_mean_or_list(missing[0], inputs, "the columns are")
            raise TrainingError(f"features.keys: {missing[0]!r} is not a column of the data{known}")
        super().__init__(inputs if keys is None else {name: inputs[name] for name in keys})

    def __missing__(self, name: str) -> RawTensor:
        where = "the data" if self._keys is None else "features.keys"
        known = did_you_mean_or_list(name, self, "the columns are")
        raise TrainingError(f"{FUNCTION}: the function reads a column {name!r}, which is not in {where}{known}")


def _check_outputs(outputs: Any, settings: PreprocessingFunction, label_key: str) -> None:
    returns = f"{FUNCTION}: {settings.function} returns"
    if not isinstance(outputs, Mapping) or not outputs:
        raise TrainingError(f"{returns} {outputs!r:.60}; it must return features by name")
    for name, value in outputs.items():
        if not isinstance(value, OUTPUTS):
            raise TrainingError(f"{returns} {value!r:.60} as {name!r}; it must be a tensor")
    if label_key not in outputs:
        known = did_you_mean_or_list(label_key, outputs, "it returns")
        raise TrainingError(
            f"{returns} no label {label_key!r}{known}. Set features.label_key to the name of one of its outputs"
        )
    label = outputs[label_key]
    if not isinstance(label, tf.Tensor) or not (label.dtype.is_floating or label.dtype.is_integer):
        raise TrainingError(
            f"{returns} a {label.dtype.name} {type(label).__name__} as the label {label_key!r}; it must be a dense"
            " tensor of numbers: 0 or 1 for a binary label, the class id for a multiclass label, 0 or 1 for each class"
            " of a multilabel label"
        )


def _check_model(directory: str, settings: RunFnModel, label: LabelConfig, label_key: str) -> None:
    wrote = f"{RUN_FN}: {settings.run_fn} wrote"
    if not Path(directory, "saved_model.pb").is_file():
        raise TrainingError(f"{wrote} no SavedModel to fn_args.serving_model_dir")
    call = model_call(settings, label_key)
    if why := call.why_not(tf.saved_model.load(directory), label.num_classes):
        raise TrainingError(f"{wrote} a SavedModel that the Evaluator cannot evaluate: {why}")
    if variables := variables_not_found(directory):
        logger.info(
            "TensorFlow Serving would not find %d variables of the SavedModel, such as %s: tf.saved_model.save does not"
            " write those of a Keras 3 model for it. The model was loaded and saved again",
            len(variables),
            variables[0],
        )
        save_again(directory)
    if variables := variables_not_found(directory):
        raise TrainingError(
            f"{wrote} a SavedModel that TensorFlow Serving cannot run: it would not find {variables[0]}"
        )
