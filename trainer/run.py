"""`run_fn`, which TFX's Trainer calls: from transformed examples to an exported model and a record of its training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import keras
import tensorflow_transform as tft

from configs.features import data_columns
from trainer import columns, models
from trainer.export import Signatures, export
from trainer.fitting import WEIGHTS, fit
from trainer.inputs import open_inputs
from trainer.label_scale import adapt
from trainer.sections import TrainerSections

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs


def run_fn(fn_args: FnArgs) -> None:
    """Train the model that `fn_args.custom_config["config"]` (TrainerSections as JSON) describes.

    Writes the SavedModel into `fn_args.serving_model_dir`; training.json, the best weights and TensorBoard logs into
    `fn_args.model_run_dir`. Raises TrainingError where training cannot start or must not go on.
    """
    sections = TrainerSections.from_json(fn_args.custom_config["config"])
    transform_output = tft.TFTransformOutput(fn_args.transform_output)
    run_dir = Path(fn_args.model_run_dir)
    keras.utils.set_random_seed(sections.train.seed)
    model = build_model(sections, transform_output)
    inputs = open_inputs(fn_args.train_files, fn_args.eval_files, transform_output, sections)
    adapt(model, inputs.train)
    history = fit(model, inputs, sections, run_dir)
    history.write(run_dir)
    signatures = Signatures(model, transform_output, raw_columns(sections), sections.label.key)
    export(fn_args.serving_model_dir, signatures, run_dir / WEIGHTS)


def build_model(sections: TrainerSections, transform_output: tft.TFTransformOutput) -> keras.Model:
    """The model that the config describes, with new weights."""
    built = columns.build(sections.features)
    features = columns.ModelInputs(built, columns.vocabulary_size(transform_output), sections.model.embedding)
    return models.build(features, sections.label, sections.model)


def raw_columns(sections: TrainerSections) -> list[str]:
    """The data columns that the features read, in the config's order."""
    read = [data_columns(name, feature, sections.features) for name, feature in sections.features.items()]
    return list(dict.fromkeys(column for names in read for column in names))
