"""`run_fn`, called by TFX's Trainer: from transformed examples to an exported model and a record of its training."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import tensorflow as tf
import tensorflow_transform as tft

from headrace.trainer import columns, generation
from headrace.trainer.callbacks.finite_loss import BatchesAfter, NonFiniteLossError
from headrace.trainer.columns.image import with_stored_images
from headrace.trainer.description import ModelDescription, stored_types
from headrace.trainer.devices.errors import explain_out_of_memory
from headrace.trainer.devices.strategy import (
    StrategyChoice,
    check_same_checkpoint,
    choose_strategy,
    detect_hardware,
    output_directory,
    set_up,
)
from headrace.trainer.export import RawColumns, Signatures, export
from headrace.trainer.fitting import WEIGHTS, Training, fit
from headrace.trainer.input.errors import explain_label_errors
from headrace.trainer.input.inputs import Inputs, open_inputs
from headrace.trainer.job import Job, checkpoints
from headrace.trainer.launch import launch, remote_training
from headrace.trainer.model import build_model, compile_model
from headrace.trainer.models.layers import adapt_scale
from headrace.trainer.sections import TrainerSections
from headrace.trainer.warmup import write_warmup
from headrace.trainer.weights.sidecar import Origin
from headrace.trainer.weights.warm_start import WeightLayout, start_from

if TYPE_CHECKING:
    from tfx.components.trainer.fn_args_utils import FnArgs

logger = logging.getLogger(__name__)


def run_fn(fn_args: FnArgs) -> None:
    """Train the model that `fn_args.custom_config["config"]` (TrainerSections as JSON) describes.

    Writes the SavedModel to `fn_args.serving_model_dir`, and training.json, the best weights and TensorBoard logs to
    `fn_args.model_run_dir`. Raises TrainingError if training cannot start or must not continue.
    """
    job = Job.of(fn_args)
    sections, transform_output = job.sections, job.transformed
    with explain_out_of_memory(sections.train):
        model = _train_and_load(job)
    built = columns.build(sections.features)
    signatures = Signatures(with_stored_images(model, built), transform_output, RawColumns.of(sections), sections.label)
    if sections.label.text is not None:
        generate = generation.signature(built, sections.label.text, signatures, transform_output)
        signatures.additional["generate"] = generate
    export(fn_args.serving_model_dir, signatures, job.run_dir / WEIGHTS)
    serving = Path(fn_args.serving_model_dir)
    WeightLayout.of(model, sections, transform_output).write(serving)
    Origin(job.work, job.base_uri).write(serving)
    _describe(sections, built, signatures, transform_output).write(serving)
    write_warmup(serving, signatures.all(), signatures.raw_spec, RawColumns.of(sections).vectors)
    if saved := checkpoints(job):
        saved.clear()


def _describe(
    sections: TrainerSections,
    built: Mapping[str, columns.Column],
    signatures: Signatures,
    transform_output: tft.TFTransformOutput,
) -> ModelDescription:
    text = sections.label.text
    return ModelDescription(
        label=sections.label,
        types=stored_types(signatures.raw_feature_spec),
        features=tuple(signatures.raw_inputs),
        multivalued=tuple(sorted(signatures.multivalued)),
        words=tuple(generation.words(built, text, transform_output)) if text is not None else (),
    )


def train(job: Job, choice: StrategyChoice) -> keras.Model:
    """Train a new model in this process, and write its record and weights to the job's run directory.

    In a cluster, only the chief writes.
    """
    sections, transform_output = job.sections, job.transformed
    strategy = set_up(choice)
    folder = checkpoints(job)
    saved = folder.latest() if folder else None
    if folder and choice.writes:
        folder.clear_others()
    start = saved.position.batches if saved else 0
    check_same_checkpoint(choice, strategy, start)
    worker = choice.worker(job.training, has_share=job.has_share)
    patterns = job.train_files, job.eval_files
    open_ = functools.partial(open_inputs, *patterns, transform_output, sections, device=choice.device, worker=worker)
    with explain_label_errors(sections.label):
        inputs = open_(start=start)

    def batches_after(batches: int) -> tf.data.Dataset:
        return open_(start=batches).train.dataset

    try:
        with strategy.scope(), explain_label_errors(sections.label):
            keras.utils.set_random_seed(sections.train.seed)
            model = build_model(sections, transform_output)
            adapt_scale(model, inputs.train)
            record = {**job.tuned_words, **_warm_start(model, job)}
            with output_directory(job.run_dir, choice) as directory:
                training = Training(sections, inputs, choice, folder, saved, batches_after, job.budget)
                history = fit(model, training, directory)
                dataclasses.replace(history, chosen={**history.chosen, **record}).write(directory)
    except NonFiniteLossError as error:
        if not choice.distributed or not choice.writes:
            raise
        raise _diagnose(error, job, inputs, batches_after) from None
    return model


def _diagnose(error: NonFiniteLossError, job: Job, inputs: Inputs, batches_after: BatchesAfter) -> NonFiniteLossError:
    """Repeat the steps before the error of a distributed training on a single device, to add their diagnosis."""
    train = job.sections.train
    model, steps = build_model(job.sections, job.transformed), train.steps_per_epoch or inputs.train.steps
    compile_model(model, job.sections.label, train, 1, steps and steps * train.max_epochs)
    return error.diagnosed(model, batches_after, inputs.eval.peek)


def _warm_start(model: keras.Model, job: Job) -> dict[str, str]:
    """Start from the weights of an earlier model if the config says so; return the entry for the training record."""
    if not job.sections.train.warm_start:
        return {}
    result = start_from(model, WeightLayout.of(model, job.sections, job.transformed), job.base_model)
    logger.info(f"warm start: {result}")
    return {"warm_start": result}


def _train_and_load(job: Job) -> keras.Model:
    """Return the trained model on a single device. Distributed training takes place in other processes."""
    if remote := remote_training():
        remote(job)
    elif (choice := choose_strategy(job.sections.train, detect_hardware())).distributed:
        launch(job)
    else:
        return train(job, choice)
    model = build_model(job.sections, job.transformed)
    model.load_weights(job.run_dir / WEIGHTS)
    return model
