"""The training of one model: its inputs, its strategy, its checkpoints, and its record."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import keras
import tensorflow as tf

from headrace.common.heap import keep_free_heap
from headrace.trainer.callbacks.finite_loss import BatchesAfter, NonFiniteLossError
from headrace.trainer.devices.strategy import StrategyChoice, check_same_checkpoint, output_directory
from headrace.trainer.fitting import Training, fit
from headrace.trainer.input.errors import explain_label_errors
from headrace.trainer.input.inputs import InputPlan, Inputs, plan_inputs
from headrace.trainer.job import Job, checkpoints
from headrace.trainer.model import build_model, compile_model
from headrace.trainer.models.layers import adapt_scale
from headrace.trainer.weights.warm_start import WeightLayout, start_from

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Circumstances:
    """How a training differs from one that stands alone."""

    inputs: InputPlan | None = None
    """How to read the examples, if other trainings read the same ones; None: the training decides."""
    pause: Callable[[], bool] | None = None
    """When to save and to raise TrainingPausedError."""
    record: Mapping[str, str] = field(default_factory=dict)
    """More entries of the training record."""


def plan(job: Job, choice: StrategyChoice) -> InputPlan:
    """Decide how a job's examples are read."""
    worker = choice.worker(job.training, has_share=job.has_share)
    with explain_label_errors(job.sections.label):
        return plan_inputs(
            job.train_files, job.eval_files, job.transformed, job.sections, device=choice.device, worker=worker
        )


def train_model(
    job: Job, choice: StrategyChoice, strategy: tf.distribute.Strategy, circumstances: Circumstances | None = None
) -> keras.Model:
    """Train the model that the job's sections describe, from its last checkpoint if there is one.

    strategy: as `choice` says, set up in this process.
    """
    keep_free_heap()
    around = circumstances or Circumstances()
    sections, transform_output = job.sections, job.transformed
    folder = checkpoints(job)
    saved = folder.latest() if folder else None
    start = saved.position.batches if saved else 0
    check_same_checkpoint(choice, strategy, start)
    inputs_plan = around.inputs or plan(job, choice)
    with explain_label_errors(sections.label):
        inputs = inputs_plan.open(sections.train, start)

    def batches_after(batches: int) -> tf.data.Dataset:
        return inputs_plan.open(sections.train, batches).train.dataset

    try:
        with strategy.scope(), explain_label_errors(sections.label):
            keras.utils.set_random_seed(sections.train.seed)
            model = build_model(sections, transform_output)
            adapt_scale(model, inputs.train, sections.label)
            record = {**around.record, **job.tuned_words, **_warm_start(model, job)}
            with output_directory(job.run_dir, choice) as directory:
                training = Training(sections, inputs, choice, folder, saved, batches_after, job.budget, around.pause)
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
    adapt_scale(model, inputs.train, job.sections.label)  # the loss of several tasks depends on it
    compile_model(model, job.sections.label, train, 1, steps and steps * train.max_epochs)
    return error.diagnosed(model, batches_after, inputs.eval.peek)


def _warm_start(model: keras.Model, job: Job) -> dict[str, str]:
    """Start from the weights of an earlier model if the config says so; return the entry for the training record."""
    if not job.sections.train.warm_start:
        return {}
    result = start_from(model, WeightLayout.of(model, job.sections, job.transformed), job.base_model)
    logger.info(f"warm start: {result}")
    return {"warm_start": result}


@contextlib.contextmanager
def without_retracing_warnings() -> Iterator[None]:
    """Silence TensorFlow's warning about frequent retracing: each of several trainings has graphs of its own."""
    logger = logging.getLogger("tensorflow")
    logger.addFilter(_is_not_about_retracing)
    try:
        yield
    finally:
        logger.removeFilter(_is_not_about_retracing)


def _is_not_about_retracing(record: logging.LogRecord) -> bool:
    return "triggered tf.function retracing" not in record.getMessage()
