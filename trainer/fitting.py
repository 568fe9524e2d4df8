"""Training itself: Keras' `fit`, with what is watched and kept on the way."""

from __future__ import annotations

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import keras
import tensorflow as tf

from headrace.configs.train import TrainConfig
from headrace.trainer.callbacks.averages import Averages
from headrace.trainer.callbacks.best_weights import BestWeights
from headrace.trainer.callbacks.checkpoint import Checkpoint
from headrace.trainer.callbacks.epoch_log import EpochLog
from headrace.trainer.callbacks.finite_loss import Batches, FiniteLoss
from headrace.trainer.callbacks.jit import JitChoice
from headrace.trainer.callbacks.scalars import Scalars
from headrace.trainer.checkpointing.checkpoints import Checkpoints, Position, Saved
from headrace.trainer.devices import precision
from headrace.trainer.devices.loop import Loop
from headrace.trainer.devices.strategy import ONE_CPU, Choice, agreement
from headrace.trainer.devices.xla import xla_told
from headrace.trainer.history import History
from headrace.trainer.input.inputs import Inputs
from headrace.trainer.input.pipeline import Split
from headrace.trainer.objective import compile_model
from headrace.trainer.optimizers import left_over
from headrace.trainer.profiling.callbacks import profiling
from headrace.trainer.sections import TrainerSections

STEPS_PER_EXECUTION = 64
"""Steps that run as one graph, at most: of a small model on a CPU, calling each from Python takes most of the time."""
MORE_CALLS = 64
"""Of a graph in an epoch, that cost less than the two iterators that Keras begins with an epoch. On the taxi example,
on busy cores, a call more took 0.3 to 0.6 ms, with all callbacks, and the two iterators 146 ms."""
WEIGHTS = "best.weights.h5"
"""The best epoch's weights, in the model's run directory."""


@dataclass(frozen=True)
class Training:
    """What is trained on, and how."""

    sections: TrainerSections
    inputs: Inputs
    choice: Choice = ONE_CPU
    """What it runs on, with its strategy's scope entered."""
    checkpoints: Checkpoints | None = None
    """Where they are written."""
    saved: Saved | None = None
    """The checkpoint to go on from, behind which the inputs begin."""
    reopen: Batches | None = None
    """The train split's batches behind so many, to look for what spoilt the loss."""

    @property
    def begin(self) -> Position:
        """Where it goes on, or begins."""
        return self.saved.position if self.saved else Position()

    @property
    def train(self) -> TrainConfig:
        """How it is trained, in the config's words."""
        return self.sections.train

    @property
    def together(self) -> int:
        """Steps that run as one graph; a training that goes on keeps its number."""
        return self.saved.tree["together"] if self.saved else self._together.steps

    @property
    def _together(self) -> Together:
        split, distributed = self.inputs.train, self.choice.distributed
        return steps_per_execution(self.train, split.steps, one_iterator=not distributed and split.endless is not None)

    @property
    def steps(self) -> int | None:
        """In an epoch, where that is known."""
        return self.train.steps_per_epoch or self.inputs.train.steps

    @property
    def all_steps(self) -> int | None:
        """In all epochs, where that is known."""
        return self.steps and self.steps * self.train.epochs

    @property
    def chosen(self) -> dict[str, str]:
        """What was chosen, and why."""
        why = self._together.why if self.together == self._together.steps else "as before it was interrupted"
        return {
            "strategy": self.choice.words,
            "precision": precision.in_words(self.train.precision),
            "steps_per_execution": f"{self.together}: {why}",
        }

    def keeping(self, watching: Sequence[keras.callbacks.Callback]) -> Checkpoint:
        """What keeps the training, with what these callbacks know."""
        agreed = agreement(self.choice, tf.distribute.get_strategy())
        split, writes = self.inputs.train, self.choice.writes
        return Checkpoint(self.checkpoints, self.train, split, watching, self.saved, writes=writes, agreed=agreed)

    def loop(self, model: keras.Model, begin: Position) -> Callable[..., object]:
        """What trains the model: Keras' `fit`, or over several devices a loop of ours."""
        if not self.choice.distributed:
            return functools.partial(model.fit, verbose=0, shuffle=False)
        whole = self.train.batch_size if self.choice.strategy == "tpu" else None
        own = self.inputs.own_batches
        return Loop(model, tf.distribute.get_strategy(), self.together, begin, whole, own_batches=own).fit


def fit(model: keras.Model, training: Training, directory: Path) -> History:
    """Train the model until the config's end or early stopping, and leave it with the weights of the best epoch.

    directory: gets the best weights and TensorBoard logs.
    Raises LostError at a loss that is not a number, and TrainingStoppedError at SIGTERM.
    """
    inputs, train, together, choice = training.inputs, training.train, training.together, training.choice
    directory.mkdir(parents=True, exist_ok=True)
    compile_model(model, training.sections.label, train, together, training.all_steps)
    split, chosen = seen_before(inputs.train, training.saved), training.chosen
    log = EpochLog(train.epochs, lambda epochs: trained_on(split, train, epochs), training.steps)
    best, jit = BestWeights(directory / WEIGHTS), _jit(training)
    print(*(f"{name}: {words}" for name, words in {"input": inputs.words, **chosen}.items()), sep="\n", flush=True)
    watching = [best, Averages(), *_early_stopping(train), Scalars(directory), log]
    profile = profiling(train, inputs, together, directory, training.begin)
    keeping = training.keeping([*watching, *profile])
    again = None if inputs.own_batches else training.reopen
    with keeping, warnings.catch_warnings(), xla_told(train):
        warnings.filterwarnings("ignore", message="Your input ran out of data")  # the first epoch's end, without cache
        dataset, steps_per_epoch = epochs_of(inputs.train, train, together, choice)
        training.loop(model, keeping.begin)(
            dataset,
            validation_data=inputs.eval.dataset,
            epochs=train.epochs,
            initial_epoch=train.epochs if keeping.was_stopped else keeping.begin.epoch,
            steps_per_epoch=steps_per_epoch,
            callbacks=[
                *profile,
                FiniteLoss(together, keeping, again, inputs.eval.peek, elsewhere=choice.distributed),
                *watching,
                keeping,
                *([jit] if isinstance(jit, JitChoice) else []),  # last: what it measures counts for no other
            ],
        )
    done, rest = len(log.epochs), left_over(train, keeping.batches)
    print(*rest, sep="\n", end="\n" if rest else "", flush=True)
    return History(
        epochs=log.epochs,
        best_epoch=best.epoch,
        stopped_early=done < train.epochs,
        parameters=model.count_params(),
        examples={"train": trained_on(split, train, done), "eval": _examples(inputs.eval, done - keeping.begin.epoch)},
        input=inputs.words,
        remarks=(*inputs.remarks, *rest),
        chosen={**chosen, "jit": jit if isinstance(jit, str) else jit.words},
    )


def epochs_of(
    split: Split, train: TrainConfig, together: int, choice: Choice = ONE_CPU
) -> tuple[tf.data.Dataset, int | None]:
    """What is trained on, and the steps of an epoch where it is endless: one iterator for all epochs, if whole
    executions make an epoch. A training that goes on within an epoch passes over its first executions without taking
    from it (`pass_over`).
    """
    if not choice.distributed and split.endless and split.steps and split.steps % together == 0:
        return split.endless(), split.steps
    return split.dataset, train.steps_per_epoch


def _jit(training: Training) -> JitChoice | str:
    """What finds out whether XLA pays; or what is already known of it, in words."""
    train, choice = training.train, training.choice
    if choice.strategy == "tpu":
        return "on: a TPU runs nothing that XLA has not compiled"
    if choice.distributed:
        return f"off: it goes with a single device, not with {choice.strategy}"
    if train.jit != "auto":
        return f"{train.jit}: `train.jit` says so"
    batches, steps = training.inputs.train.peek, training.all_steps
    return JitChoice(batches, training.together, steps, train.epochs, begin=training.begin)


class Together(NamedTuple):
    """How many steps run as one graph, and why, in words for the training record."""

    steps: int
    why: str


def steps_per_execution(train: TrainConfig, steps: int | None, *, one_iterator: bool) -> Together:
    """How many steps run as one graph, where the config leaves it open: up to 64, and all of an epoch that has no more.

    - With `steps_per_epoch` the largest number that divides it, since Keras makes whole executions only.
    - Where one iterator can serve all epochs, the largest number that divides an epoch's steps (23 of 69, 50 of 1,000),
      unless that makes over MORE_CALLS calls in an epoch more than 64 would (4 of 1,172, or where the steps are prime).
    - Else 64, and an epoch ends with a shorter execution.

    No number is above 64, so checkpoints (`every_steps`), SIGTERM and profiles never wait for more steps than that.
    Batches whose gradients are accumulated are counted by the optimizer, however they run.

    steps: batches in an epoch, where that is known; one_iterator: whether the examples are in memory and a single
    device trains. Otherwise an epoch begins an iterator in any case, and a divisor is of no use.
    """
    if train.steps_per_execution != "auto":
        return Together(train.steps_per_execution, "`train.steps_per_execution` says so")
    most, whole = STEPS_PER_EXECUTION, train.steps_per_epoch or steps
    if whole is None:
        return Together(most, f"{most} at most")
    divisor = max(size for size in range(1, most + 1) if whole % size == 0)
    if train.steps_per_epoch is not None:
        return Together(divisor, f"the largest number up to {most} that divides the {whole:,} of an epoch")
    if whole <= most or not one_iterator:
        return Together(min(whole, most), f"{most} at most, of {whole:,} in an epoch")
    if whole // divisor - math.ceil(whole / most) > MORE_CALLS:
        return Together(most, f"{most} at most, of {whole:,} in an epoch; the numbers that divide them are too small")
    why = f"the largest number up to {most} that divides the {whole:,} of an epoch, so one iterator serves all epochs"
    return Together(divisor, why)


def trained_on(split: Split, train: TrainConfig, epochs: int) -> int:
    """Examples in each of so many epochs of training."""
    return train.steps_per_epoch * train.batch_size if train.steps_per_epoch else _examples(split, epochs)


def seen_before(split: Split, saved: Saved | None) -> Split:
    """The split, with what went through before a checkpoint counted as seen."""
    if saved is None or split.size is not None:
        return split
    return dataclasses.replace(split, seen=lambda: saved.position.examples + split.seen())


def _examples(split: Split, epochs: int) -> int:
    return split.size if split.size is not None else split.seen() // max(epochs, 1)


def _early_stopping(train: TrainConfig) -> list[keras.callbacks.Callback]:
    if train.early_stopping is None:
        return []
    patience, min_delta = train.early_stopping.patience, train.early_stopping.min_delta
    return [keras.callbacks.EarlyStopping("val_loss", min_delta=min_delta, patience=patience, mode="min")]
