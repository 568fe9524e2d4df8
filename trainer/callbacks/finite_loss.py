"""Stops training at a loss that is not a number, and where the optimizer cannot go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.trainer.callbacks.checkpoint import Checkpoint
from headrace.trainer.checkpointing.checkpoints import Saved
from headrace.trainer.checkpointing.state import Tree, captured, restored
from headrace.trainer.diagnosis import MOST_BYTES, TAME, first_bad, optimizer_good, replay

Batches = Callable[[int], Iterable[Any]]
"""From a number of batches to those that follow."""


@dataclass(frozen=True)
class Lost:
    """A number that is none, and how to make it again."""

    what: str
    """The loss, say, and when."""
    batches: int
    """Trained on before `tree`, of all epochs; of an evaluation, 0."""
    tree: Tree
    """The state of the model: the last good one of a training, or that which is evaluated."""
    epoch: int
    """Batches of the epochs before."""
    evaluating: bool

    def why(self, model: keras.Model, train: Batches, evaluation: Iterable[Any]) -> str:
        """The step or batch, the feature, and the way out; the last alone where the others cannot be found. Spoils the
        model, which is compiled and built on a single device.
        """
        try:
            return self._evaluated(model, evaluation) if self.evaluating else self._trained(model, train)
        except (tf.errors.OpError, ValueError, TypeError, AttributeError) as error:
            print(f"that did not work: {error}", flush=True)
            return TAME

    def _trained(self, model: keras.Model, train: Batches) -> str:
        told = f"making the steps since batch {self.batches:,} again to find out why"
        print(f"{self.what}: {told}", flush=True)
        found = replay(model, self.tree, train(self.batches))
        if found is None:
            return TAME
        step = self.batches + found.batches + 1 - self.epoch
        return f"Step {step:,} of that epoch is the first bad one: {found.words}. {found.way_out}"

    def _evaluated(self, model: keras.Model, evaluation: Iterable[Any]) -> str:
        restored(model, self.tree)
        found = first_bad(model, evaluation)
        return f"In its batch {found.batches + 1}, {found.words}. {found.way_out}" if found else TAME


class LostError(TrainingError):
    """The loss is not a number, or what the optimizer keeps. `lost` is how to find out why, where that is left to do on
    a single device.
    """

    def __init__(self, what: str, kept: str, lost: Lost | None = None, why: str = TAME) -> None:
        self.kept, self.lost = kept, lost
        super().__init__(f"{what}. {why}{kept}")

    def with_why(self, model: keras.Model, train: Batches, evaluation: Iterable[Any]) -> LostError:
        """The same with the step and the feature."""
        if self.lost is None:
            return self
        return LostError(self.lost.what, self.kept, why=self.lost.why(model, train, evaluation))


class FiniteLoss(keras.callbacks.Callback):
    """Raises LostError at the first loss that is NaN or infinite, in training or evaluation, and at the end of an epoch
    after which what the optimizer keeps of the gradients is: the weights may all be numbers then, and learn no more.

    The loss is looked at once for each execution of `steps_per_execution` steps. Where `keeping` and the batches are
    given, the steps are then made again from the beginning of the epoch, or the last checkpoint, to name the step and
    the feature; `elsewhere` leaves that to who catches the error, for a model that is on several devices here.

    keeping: counts batches, and knows the last checkpoint; batches: of the train split; evaluation: of the eval split.
    """

    def __init__(
        self,
        steps_per_execution: int,
        keeping: Checkpoint | None = None,
        batches: Batches | None = None,
        evaluation: Iterable[Any] = (),
        *,
        elsewhere: bool = False,
    ) -> None:
        super().__init__()
        self.steps_per_execution = steps_per_execution
        self._keeping, self._batches, self._evaluation = keeping, batches, evaluation
        self._elsewhere = elsewhere
        self._epoch = 0
        self._begin: tuple[int, Tree] | None = None

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Remember where the epoch begins."""
        self._epoch = epoch + 1
        if self._batches is not None and self._keeping is not None and _size(self.model) <= MOST_BYTES:
            self._begin = self._keeping.batches, captured(self.model)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Look at the loss of the steps just made."""
        loss = (logs or {}).get("loss", 0.0)
        if math.isfinite(loss):
            return
        first = batch + 2 - self.steps_per_execution
        last = min(batch + 1, (self.params or {}).get("steps") or batch + 1)  # an epoch's last execution is short
        steps = f"step {last}" if first == last else f"steps {first} to {last}"
        raise self._in_training(f"the loss became {loss} in {steps} of epoch {self._epoch}")

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Look at the optimizer, and at the eval loss."""
        if not optimizer_good(self.model):
            raise self._in_training(f"what the optimizer keeps of the gradients became infinite in epoch {epoch + 1}")
        loss = (logs or {}).get("val_loss", 0.0)
        if not math.isfinite(loss):
            what = f"the loss became {loss} on the eval split after epoch {epoch + 1}"
            again = self._batches is not None
            raise self._error(what, Lost(what, 0, captured(self.model), 0, evaluating=True) if again else None)

    def _begun(self) -> tuple[int, Tree] | None:
        """The latest state that is good."""
        saved: Saved | None = self._keeping.last_saved() if self._keeping else None
        if saved is not None and (self._begin is None or saved.position.batches > self._begin[0]):
            return saved.position.batches, saved.tree
        return self._begin

    def _in_training(self, what: str) -> LostError:
        begin, before = self._begun(), self._keeping.batches_before if self._keeping else 0
        return self._error(what, Lost(what, *begin, before, evaluating=False) if begin else None)

    def _error(self, what: str, lost: Lost | None) -> LostError:
        last = self._keeping.last if self._keeping else None
        kept = f". The last good checkpoint is {last}" if last else ""
        if self._batches is None:
            return LostError(what, kept)
        error = LostError(what, kept, lost)
        return error if self._elsewhere else error.with_why(self.model, self._batches, self._evaluation)


def _size(model: keras.Model) -> int:
    """Bytes of the model and its optimizer, about."""
    return 4 * sum(math.prod(variable.shape) for variable in [*model.variables, *model.optimizer.variables])
