"""`run_fn`, which TFX's Trainer calls: from transformed examples to an exported model and a record of its training."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import tensorflow as tf
import tensorflow_transform as tft

from headrace.configs.features import data_columns, single_columns
from headrace.trainer import columns, generation, models
from headrace.trainer.callbacks.finite_loss import Batches, LostError
from headrace.trainer.checkpointing.work import checkpoints
from headrace.trainer.columns.stored import from_stored
from headrace.trainer.devices.elsewhere import training_elsewhere
from headrace.trainer.devices.launch import launch
from headrace.trainer.devices.out_of_memory import out_of_memory_told
from headrace.trainer.devices.precision import check_float32, computing_in
from headrace.trainer.devices.strategy import Choice, check_same_begin, choose, look, opened, place_to_write
from headrace.trainer.export import RawColumns, Signatures, export
from headrace.trainer.fitting import WEIGHTS, Training, fit
from headrace.trainer.input.inputs import Inputs, open_inputs
from headrace.trainer.job import Job
from headrace.trainer.label import with_vocabulary
from headrace.trainer.label_check import labels_told
from headrace.trainer.label_scale import adapt
from headrace.trainer.objective import compile_model
from headrace.trainer.sections import TrainerSections
from headrace.trainer.weights.layout import Layout
from headrace.trainer.weights.origin import Origin
from headrace.trainer.weights.warm_start import start_from

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs


def run_fn(fn_args: FnArgs) -> None:
    """Train the model that `fn_args.custom_config["config"]` (TrainerSections as JSON) describes.

    Writes the SavedModel into `fn_args.serving_model_dir`; training.json, the best weights and TensorBoard logs into
    `fn_args.model_run_dir`. Raises TrainingError where training cannot start or must not go on.
    """
    job = Job.of(fn_args)
    sections, transform_output = job.sections, job.transformed
    with out_of_memory_told(sections.train):
        model = _trained(job)
    built = columns.build(sections.features)
    signatures = Signatures(from_stored(model, built), transform_output, raw_columns(sections))
    if sections.label.text is not None:
        signatures.more["generate"] = generation.signature(built, sections.label.text, signatures, transform_output)
    export(fn_args.serving_model_dir, signatures, job.run_dir / WEIGHTS)
    serving = Path(fn_args.serving_model_dir)
    Layout.of(model, sections, transform_output).write(serving)
    Origin(job.work, job.base_uri).write(serving)
    if kept := checkpoints(job):
        kept.clear()


def train(job: Job, choice: Choice) -> keras.Model:
    """Train a new model in this process, and leave in the job's run directory what is known of it.

    Of the workers of a cluster, the chief alone does so.
    """
    sections, transform_output = job.sections, job.transformed
    strategy = opened(choice)
    kept = checkpoints(job)
    saved = kept.latest() if kept else None
    if kept and choice.writes:
        kept.clear_others()
    start = saved.position.batches if saved else 0
    check_same_begin(choice, strategy, start)
    worker = choice.worker(job.training, has_share=job.has_share)
    patterns = job.train_files, job.eval_files
    reading = functools.partial(open_inputs, *patterns, transform_output, sections, device=choice.device, worker=worker)
    with labels_told(sections.label):
        inputs = reading(start=start)

    def behind(batches: int) -> tf.data.Dataset:
        return reading(start=batches).train.dataset

    try:
        with strategy.scope(), labels_told(sections.label):
            keras.utils.set_random_seed(sections.train.seed)
            model = build_model(sections, transform_output)
            adapt(model, inputs.train)
            begun = warm_started(model, job)
            with place_to_write(job.run_dir, choice) as directory:
                history = fit(model, Training(sections, inputs, choice, kept, saved, behind), directory)
                dataclasses.replace(history, chosen={**history.chosen, **job.tuned_words, **begun}).write(directory)
    except LostError as error:
        if not choice.distributed or not choice.writes:
            raise
        raise explained(error, job, inputs, behind) from None
    return model


def explained(error: LostError, job: Job, inputs: Inputs, behind: Batches) -> LostError:
    """The error that ended a training over several devices, with what the same steps on a single one tell of it."""
    train = job.sections.train
    model, steps = build_model(job.sections, job.transformed), train.steps_per_epoch or inputs.train.steps
    compile_model(model, job.sections.label, train, 1, steps and steps * train.epochs)
    return error.with_why(model, behind, inputs.eval.peek)


def warm_started(model: keras.Model, job: Job) -> dict[str, str]:
    """Begin with the weights of an earlier model, if the config says so; what came of it, for the training's record."""
    if not job.sections.train.warm_start:
        return {}
    words = start_from(model, Layout.of(model, job.sections, job.transformed), job.base_model)
    print(f"warm start: {words}", flush=True)
    return {"warm_start": words}


def _trained(job: Job) -> keras.Model:
    """The trained model, on a single device. Over several devices a process of its own trains it, or several."""
    if elsewhere := training_elsewhere():
        elsewhere(job)
    elif (choice := choose(job.sections.train, look())).distributed:
        launch(job)
    else:
        return train(job, choice)
    model = build_model(job.sections, job.transformed)
    model.load_weights(job.run_dir / WEIGHTS)
    return model


def build_model(sections: TrainerSections, transform_output: tft.TFTransformOutput) -> keras.Model:
    """The model that the config describes, with new weights."""
    built = columns.build(sections.features)
    vocabulary_size = columns.vocabulary_size(transform_output)
    features = columns.ModelInputs(built, vocabulary_size, sections.model.embedding)
    label = with_vocabulary(sections.label, built, vocabulary_size)
    with computing_in(sections.train.precision):
        model = models.build(features, label, sections.model)
    check_float32(model, sections.model.kind)
    return model


def raw_columns(sections: TrainerSections) -> RawColumns:
    """The data columns that label and features read, in the config's order."""
    read = [data_columns(name, feature, sections.features) for name, feature in sections.features.items()]
    features = list(dict.fromkeys(column for names in read for column in names))
    return RawColumns(sections.label.key, features, columns_of_several(sections), columns_of_one(sections))


def columns_of_one(sections: TrainerSections) -> dict[str, str]:
    """The data columns of which a served model refuses several values in an example, and what reads each."""
    if sections.several_values == "first":
        return {}
    features = {column: f"features.{name}" for column, name in single_columns(sections.features).items()}
    return {sections.label.key: "label", **features}


def columns_of_several(sections: TrainerSections) -> set[str]:
    """The data columns of which a feature takes all values of an example."""
    several = {name: one for name, one in sections.features.items() if getattr(one, "multivalued", False)}
    return {column for name, one in several.items() for column in data_columns(name, one, sections.features)}
