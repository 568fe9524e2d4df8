"""Training: Keras' `fit`, or a loop over several devices, with the callbacks that watch and save it."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import keras
import tensorflow as tf

from headrace.common.figures import figure
from headrace.configs.schema.train import TrainConfig
from headrace.trainer import executions
from headrace.trainer.budget import NO_BUDGET, Budget
from headrace.trainer.callbacks.checkpoint import Checkpoint, TrainingPausedError
from headrace.trainer.callbacks.epoch_log import Epoch, EpochLog, History
from headrace.trainer.callbacks.finite_loss import BatchesAfter, FiniteLoss
from headrace.trainer.callbacks.jit import JitChoice
from headrace.trainer.callbacks.tensorboard import Scalars
from headrace.trainer.callbacks.weights import Averages, BestWeights
from headrace.trainer.checkpointing.checkpoints import Checkpoints, SavedCheckpoint, TrainingPosition
from headrace.trainer.devices.errors import explain_xla_errors
from headrace.trainer.devices.loop import DistributedLoop
from headrace.trainer.devices.strategy import SINGLE_CPU, StrategyChoice, any_worker
from headrace.trainer.input.batches import InputSplit
from headrace.trainer.input.inputs import Inputs
from headrace.trainer.model import compile_model, describe_precision
from headrace.trainer.optimizers import leftover_batches
from headrace.trainer.profiling.callback import profiling
from headrace.trainer.sections import TrainerSections
from headrace.trainer.table_updates import TableUpdates

logger = logging.getLogger(__name__)

STEPS_PER_EXECUTION = 64
"""Maximum number of steps that run as one graph: on a CPU, calls from Python take most of the time of a small model."""
MAX_ADDITIONAL_CALLS = 64
"""Calls of the graph per epoch that cost less than the two iterators that Keras creates for each epoch. On the taxi
example, on busy cores, a call took 0.3 to 0.6 ms with all callbacks, and the two iterators 146 ms."""
FALLING = 1e-3
"""Relative decrease of the eval loss in the last epoch that is worth a remark."""
NOTICEABLE = 1e-5
"""The same, relative to the eval loss of the first epoch."""
WEIGHTS = "best.weights.h5"
"""The best epoch's weights, in the model's run directory."""


@dataclass(frozen=True)
class Training:
    """What to train on, and how."""

    sections: TrainerSections
    inputs: Inputs
    choice: StrategyChoice = SINGLE_CPU
    """The strategy, with its scope entered."""
    checkpoints: Checkpoints | None = None
    """Where checkpoints are written."""
    saved: SavedCheckpoint | None = None
    """The checkpoint to resume from; the inputs start after it."""
    batches_after: BatchesAfter | None = None
    """Reopens the train split after a number of batches, to find the cause of a non-finite loss."""
    budget: Budget = NO_BUDGET
    """The numbers that were chosen for settings of `train:`, which has them already."""
    pause: Callable[[], bool] | None = None
    """Whether to interrupt the training, as in Checkpoint."""

    @property
    def begin(self) -> TrainingPosition:
        """Where training resumes, or starts."""
        return self.saved.position if self.saved else TrainingPosition()

    @property
    def train(self) -> TrainConfig:
        return self.sections.train

    @property
    def steps_per_execution(self) -> int:
        """Steps that run as one graph; a resumed training keeps its number."""
        return self.saved.tree["together"] if self.saved else self._execution_size.steps

    @property
    def _execution_size(self) -> ExecutionSize:
        split, distributed = self.inputs.train, self.choice.distributed
        one_iterator = not distributed and split.endless is not None
        return choose_steps_per_execution(self.train, split.steps, one_iterator=one_iterator)

    @property
    def steps(self) -> int | None:
        """Steps in an epoch, if that is known."""
        return self.train.steps_per_epoch or self.inputs.train.steps

    @property
    def all_steps(self) -> int | None:
        """Steps in all epochs, if that is known."""
        return self.steps and self.steps * self.train.max_epochs

    @property
    def chosen(self) -> dict[str, str]:
        """The choices for settings that are `auto`, with their reasons, for the training record."""
        steps, size = self.steps_per_execution, self._execution_size
        return {
            **self.budget.words,
            "strategy": self.choice.words,
            "precision": describe_precision(self.train.precision),
            "steps_per_execution": f"{steps}: {size.why if steps == size.steps else 'as before the interruption'}",
        }

    def checkpoint_callback(self, callbacks: Sequence[keras.callbacks.Callback]) -> Checkpoint:
        """Create the callback that saves the training, including the state of these callbacks."""
        agree = any_worker(self.choice, tf.distribute.get_strategy())
        split, writes = self.inputs.train, self.choice.writes
        saved, pause = self.saved, self.pause
        return Checkpoint(
            self.checkpoints, self.train, split, callbacks, saved, writes=writes, agree=agree, pause=pause
        )

    def loop(self, model: keras.Model, begin: TrainingPosition) -> Callable[..., object]:
        """The function that trains the model: Keras' `fit`, or the loop over several devices."""
        if not self.choice.distributed:
            executions.install(model)
            return functools.partial(model.fit, verbose=0, shuffle=False)
        fixed_batch = self.train.global_batch_size if self.choice.strategy == "tpu" else None
        own = self.inputs.own_batches
        strategy = tf.distribute.get_strategy()
        return DistributedLoop(model, strategy, self.steps_per_execution, begin, fixed_batch, own_batches=own).fit


def fit(model: keras.Model, training: Training, directory: Path) -> History:
    """Train the model until the last epoch or early stopping, and leave it with the weights of the best epoch.

    Raises NonFiniteLossError for a non-finite loss, TrainingStoppedError on SIGTERM, and TrainingPausedError.

    directory: receives the best weights and TensorBoard logs.
    """
    inputs, train, execution = training.inputs, training.train, training.steps_per_execution
    directory.mkdir(parents=True, exist_ok=True)
    tables = compile_model(model, training.sections.label, train, execution, training.all_steps)
    split, chosen = count_from_checkpoint(inputs.train, training.saved), training.chosen
    log = EpochLog(train.max_epochs, lambda epochs: examples_per_epoch(split, train, epochs), training.steps)
    best, jit = BestWeights(directory / WEIGHTS), _jit(training)
    for name, words in {"input": inputs.words, **chosen}.items():
        logger.info(f"{name}: {words}")
    callbacks = [best, Averages(), *_early_stopping(train), Scalars(directory), log]
    found = functools.partial(_found, tables, jit)
    profile = profiling(train, inputs, execution, directory, training.begin, found=found)
    checkpoint = training.checkpoint_callback([*callbacks, *profile])
    batches_after, elsewhere = None if inputs.own_batches else training.batches_after, training.choice.distributed
    finite_loss = FiniteLoss(execution, checkpoint, batches_after, lambda: inputs.eval.peek, elsewhere=elsewhere)
    last = [jit] if isinstance(jit, JitChoice) else []  # last, so that no other callback times its steps
    try:
        _run(model, training, checkpoint, [*profile, finite_loss, *callbacks, checkpoint, *last])
    except TrainingPausedError as paused:
        best.restore_weights()
        paused.epochs, paused.model = log.epochs, model
        raise
    done = len(log.epochs)
    rest = (*leftover_batches(train, checkpoint.batches), *still_falling(log.epochs, train.max_epochs))
    for line in rest:
        logger.info(line)
    eval_size = _split_size(inputs.eval, done - checkpoint.begin.epoch)
    return History(
        epochs=log.epochs,
        best_epoch=best.epoch,
        stopped_early=done < train.max_epochs,
        parameters=model.count_params(),
        examples={"train": examples_per_epoch(split, train, done), "eval": eval_size},
        input=inputs.words,
        remarks=(*inputs.remarks, *rest),
        chosen={**chosen, "embedding_updates": tables.words, "jit": jit if isinstance(jit, str) else jit.words},
    )


def _run(
    model: keras.Model, training: Training, checkpoint: Checkpoint, callbacks: Sequence[keras.callbacks.Callback]
) -> None:
    inputs, train, execution = training.inputs, training.train, training.steps_per_execution
    with checkpoint, warnings.catch_warnings(), explain_xla_errors(train):
        warnings.filterwarnings("ignore", message="Your input ran out of data")  # end of the first epoch, not cached
        dataset, steps_per_epoch = epoch_dataset(inputs.train, train, execution, training.choice)
        training.loop(model, checkpoint.begin)(
            dataset,
            validation_data=inputs.eval.dataset,
            epochs=train.max_epochs,
            initial_epoch=train.max_epochs if checkpoint.was_stopped else checkpoint.begin.epoch,
            steps_per_epoch=steps_per_epoch,
            callbacks=callbacks,
        )


def epoch_dataset(
    split: InputSplit, train: TrainConfig, steps_per_execution: int, choice: StrategyChoice = SINGLE_CPU
) -> tuple[tf.data.Dataset, int | None]:
    """Return the dataset to train on, and the steps in an epoch if the dataset is endless.

    A single iterator serves all epochs if an epoch consists of whole executions. A training that resumes within an
    epoch skips its first executions without taking batches (`skip_executions`).
    """
    if not choice.distributed and split.endless and split.steps and split.steps % steps_per_execution == 0:
        return split.endless(), split.steps
    return split.dataset, train.steps_per_epoch


def _jit(training: Training) -> JitChoice | str:
    """The callback that measures whether XLA is faster; or the reason why nothing is measured."""
    train, choice = training.train, training.choice
    if choice.strategy == "tpu":
        return "on: a TPU only runs what XLA has compiled"
    if choice.distributed:
        return f"off: it applies to a single device, not to {choice.strategy}"
    if train.jit != "auto":
        return f"{train.jit}: `train.jit` says so"
    split, steps = training.inputs.train, training.all_steps
    return JitChoice(lambda: split.peek, training.steps_per_execution, steps, train.max_epochs, begin=training.begin)


def _found(tables: TableUpdates, jit: JitChoice | str) -> dict[str, object]:
    """What a profile should know of the training's steps, as fields of ProfileFacts."""
    return {"updated_rows": tables.by_rows, "jit_measured": isinstance(jit, JitChoice) and jit.measured}


class ExecutionSize(NamedTuple):
    """How many steps run as one graph, and why."""

    steps: int
    why: str


def choose_steps_per_execution(train: TrainConfig, steps: int | None, *, one_iterator: bool) -> ExecutionSize:
    """Choose how many steps run as one graph, unless the config says it: up to 64, and at most those of an epoch.

    - With `steps_per_epoch`, the largest divisor of it, since Keras only runs whole executions.
    - If one iterator can serve all epochs, the largest divisor of an epoch's steps (23 of 69, 50 of 1,000), unless that
      makes over MAX_ADDITIONAL_CALLS more calls per epoch than 64 would (4 of 1,172, or a prime number of steps).
    - Otherwise 64, and an epoch ends with a shorter execution.

    No number is above 64, so checkpoints (`every_steps`), SIGTERM and profiles never wait for more steps than that.
    The optimizer counts batches whose gradients are accumulated, independent of executions.

    Args:
        train: The `train:` section.
        steps: Batches in an epoch, if that is known.
        one_iterator: Whether the examples are in memory and a single device trains. Otherwise each epoch creates an
            iterator anyway, and a divisor has no advantage.
    """
    if train.steps_per_execution != "auto":
        return ExecutionSize(train.steps_per_execution, "`train.steps_per_execution` says so")
    limit, epoch = STEPS_PER_EXECUTION, train.steps_per_epoch or steps
    if epoch is None:
        return ExecutionSize(limit, f"at most {limit}")
    divisor = max(size for size in range(1, limit + 1) if epoch % size == 0)
    if train.steps_per_epoch is not None:
        return ExecutionSize(divisor, f"the largest number up to {limit} that divides the {epoch:,} of an epoch")
    if epoch <= limit or not one_iterator:
        return ExecutionSize(min(epoch, limit), f"at most {limit}, of {epoch:,} in an epoch")
    if epoch // divisor - math.ceil(epoch / limit) > MAX_ADDITIONAL_CALLS:
        return ExecutionSize(limit, f"at most {limit}, of {epoch:,} in an epoch, whose divisors are too small")
    why = f"the largest number up to {limit} that divides the {epoch:,} of an epoch, so one iterator serves all epochs"
    return ExecutionSize(divisor, why)


def examples_per_epoch(split: InputSplit, train: TrainConfig, epochs: int) -> int:
    """Number of examples in each epoch, once `epochs` of them are done."""
    return train.steps_per_epoch * train.global_batch_size if train.steps_per_epoch else _split_size(split, epochs)


def count_from_checkpoint(split: InputSplit, saved: SavedCheckpoint | None) -> InputSplit:
    """Count the examples before a checkpoint as seen."""
    if saved is None or split.size is not None:
        return split
    return dataclasses.replace(split, seen=lambda: saved.position.examples + split.seen())


def _split_size(split: InputSplit, epochs: int) -> int:
    return split.size if split.size is not None else split.seen() // max(epochs, 1)


def _early_stopping(train: TrainConfig) -> list[keras.callbacks.Callback]:
    if train.early_stopping is None:
        return []
    min_delta = train.early_stopping.min_delta
    return [keras.callbacks.EarlyStopping("val_loss", min_delta=min_delta, patience=train.patience, mode="min")]


def still_falling(epochs: Sequence[Epoch], planned: int) -> tuple[str, ...]:
    """Return a remark if training ended with its last planned epoch while the eval loss was falling.

    It counts as falling if the last epoch lowered the lowest loss by at least a thousandth, and by at least a
    100,000th of the first epoch's loss: a loss that is nearly 0 can fall for ever.
    """
    found = [epoch.metrics.get("val_loss", math.nan) for epoch in epochs]
    if len(found) < max(planned, 2):
        return ()
    before, last = min(found[:-1]), found[-1]
    if not last < before - max(abs(before) * FALLING, abs(found[0]) * NOTICEABLE):
        return ()
    what = f"the eval loss was still falling in the last of {planned:,} epochs, from {figure(before)} to {figure(last)}"
    return (f"{what}; raise `train.epochs`",)
