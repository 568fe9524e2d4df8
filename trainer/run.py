"""`run_fn`, called by TFX's Trainer: from transformed examples to an exported model and a record of its training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import tensorflow_transform as tft

from headrace.configs.schema.auto_model import AutoModel
from headrace.configs.schema.data import bits_column
from headrace.configs.schema.label import LabelConfig
from headrace.trainer import columns, generation, writing
from headrace.trainer.answers import record_answers
from headrace.trainer.columns.base import is_foreign
from headrace.trainer.columns.image import with_stored_images
from headrace.trainer.description import ModelDescription, stored_types
from headrace.trainer.devices.errors import explain_out_of_memory
from headrace.trainer.devices.strategy import SINGLE_CPU, StrategyChoice, choose_strategy, hardware_for, set_up
from headrace.trainer.export import export
from headrace.trainer.fitting import WEIGHTS
from headrace.trainer.input.errors import explain_label_errors
from headrace.trainer.job import Job, checkpoints
from headrace.trainer.launch import launch, remote_training
from headrace.trainer.model import build_model
from headrace.trainer.model_search.choice import with_chosen_model
from headrace.trainer.model_search.search import train_best
from headrace.trainer.raw_columns import RawColumns
from headrace.trainer.sections import TrainerSections
from headrace.trainer.signatures import Signatures
from headrace.trainer.training import plan, train_model
from headrace.trainer.trees.training import train_trees
from headrace.trainer.warmup import write_warmup
from headrace.trainer.weights.sidecar import TrainingOrigin
from headrace.trainer.weights.warm_start import WeightLayout

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs


def run_fn(fn_args: FnArgs) -> None:
    """Train the model that `fn_args.custom_config["config"]` (TrainerSections as JSON) describes.

    Writes the SavedModel to `fn_args.serving_model_dir`, and training.json, the best weights, the answers of the model
    in memory and TensorBoard logs to `fn_args.model_run_dir`. Raises TrainingError if training cannot start or must not
    continue.
    """
    job = Job.of(fn_args)
    sections, transform_output = job.sections, job.transformed
    with explain_out_of_memory(sections.train):
        model = _train_and_load(job)
    sections = with_chosen_model(job).sections
    built = columns.build(sections.features)
    signatures = Signatures(with_stored_images(model, built), transform_output, RawColumns.of(sections), sections.label)
    if sections.label.text is not None:
        generate = generation.signature(built, sections.label.text, signatures, transform_output)
        signatures.additional[generation.GENERATE] = generate
    if sections.label.kind == "text":
        writing.install(signatures, sections.label, transform_output)
    export(fn_args.serving_model_dir, signatures, job.run_dir / WEIGHTS)
    serving = Path(fn_args.serving_model_dir)
    WeightLayout.of(model, sections, transform_output).write(serving)
    TrainingOrigin(job.work, job.base_uri).write(serving)
    _describe(sections, built, signatures, transform_output).write(serving)
    write_warmup(serving, signatures.all(), signatures.raw_spec, RawColumns.of(sections).vectors)
    record_answers(job.run_dir, signatures, job.eval_files, transform_output.transformed_feature_spec())
    if saved := checkpoints(job):
        saved.clear()
        saved.clear_parts()


def _describe(
    sections: TrainerSections,
    built: Mapping[str, columns.Column],
    signatures: Signatures,
    transform_output: tft.TFTransformOutput,
) -> ModelDescription:
    bits = {*map(bits_column, sections.float64)}
    return ModelDescription(
        label=sections.label,
        types={name: kind for name, kind in stored_types(signatures.raw_feature_spec).items() if name not in bits},
        features=tuple(signatures.raw_inputs),
        reads=feature_columns(sections, built, signatures),
        float64=sections.float64,
        multivalued=tuple(sorted(signatures.multivalued)),
        model={"kind": sections.model.kind, **sections.model.model_dump(mode="json", exclude_defaults=True)},
        words=_words(sections.label, built, transform_output),
        prediction_key=writing.TEXT if sections.label.kind == "text" else None,
    )


def feature_columns(
    sections: TrainerSections, built: Mapping[str, columns.Column], signatures: Signatures
) -> dict[str, tuple[str, ...]]:
    """The data columns that each feature of the model reads; empty if a feature is computed by code of the user's."""
    if any(map(is_foreign, built.values())):
        return {}
    features = sections.features
    return {name: features[name].data_columns(name, features) for name in signatures.model_inputs}


def _words(
    label: LabelConfig, built: Mapping[str, columns.Column], transform_output: tft.TFTransformOutput
) -> tuple[str, ...]:
    """The names of the classes of a next_word or text label, in order, without the last one."""
    if label.kind == "text":
        return writing.class_names(label, transform_output)
    return () if label.text is None else tuple(generation.words(built, label.text, transform_output))


def train(job: Job, choice: StrategyChoice) -> keras.Model:
    """Train a new model in this process, and write its record and weights to the job's run directory.

    With `model.kind: auto`, the model is the best one of a search, which is in that directory as well. In a cluster,
    only the chief writes.
    """
    strategy = set_up(choice)
    if (folder := checkpoints(job)) and choice.writes:
        folder.clear_others()
    if isinstance(job.sections.model, AutoModel):
        return train_best(job, job.sections.model, choice, strategy)
    if job.sections.model.has_trees:
        with explain_label_errors(job.sections.label):
            return train_trees(job, plan(job, choice))
    return train_model(job, choice, strategy)


def _train_and_load(job: Job) -> keras.Model:
    """Return the trained model on a single device. Distributed training takes place in other processes."""
    if job.sections.model.has_trees:
        return train(job, SINGLE_CPU)
    if remote := remote_training():
        remote(job)
    elif (choice := choose_strategy(job.sections.train, hardware_for(job.sections.model))).distributed:
        launch(job)
    else:
        return train(job, choice)
    model = build_model(with_chosen_model(job).sections, job.transformed)
    model.load_weights(job.run_dir / WEIGHTS)
    return model
