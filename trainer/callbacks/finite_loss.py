"""Stops training at a loss that is not a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from configs.errors import TrainingError
from trainer.callbacks.checkpoint import Checkpoint
from trainer.checkpointing.checkpoints import Saved
from trainer.checkpointing.state import Tree, captured, restored
from trainer.diagnosis import MOST_BYTES, TAME, first_bad, replay

Batches = Callable[[int], Iterable[Any]]
"""From a number of batches to those that follow."""


@dataclass(frozen=True)
class Lost:
    """A loss that is no number, and how to make it again."""

    loss: float
    when: str
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
        print(f"the loss became {self.loss}: {told}", flush=True)
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
    """The loss is not a number. `lost` is how to find out why, where that is left to do on a single device."""

    def __init__(self, loss: float, when: str, kept: str, lost: Lost | None = None, why: str = TAME) -> None:
        self.kept, self.lost = kept, lost
        super().__init__(f"the loss became {loss} {when}. {why}{kept}")

    def with_why(self, model: keras.Model, train: Batches, evaluation: Iterable[Any]) -> LostError:
        """The same with the step and the feature."""
        if self.lost is None:
            return self
        return LostError(self.lost.loss, self.lost.when, self.kept, why=self.lost.why(model, train, evaluation))


class FiniteLoss(keras.callbacks.Callback):
    """Raises LostError at the first loss that is NaN or infinite, in training or evaluation.

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
        when, begin = f"in {steps} of epoch {self._epoch}", self._begun()
        before = self._keeping.batches_before if self._keeping else 0
        raise self._error(loss, when, Lost(loss, when, *begin, before, evaluating=False) if begin else None)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Look at the eval loss."""
        loss = (logs or {}).get("val_loss", 0.0)
        if not math.isfinite(loss):
            when = f"on the eval split after epoch {epoch + 1}"
            again = self._batches is not None
            raise self._error(
                loss, when, Lost(loss, when, 0, captured(self.model), 0, evaluating=True) if again else None
            )

    def _begun(self) -> tuple[int, Tree] | None:
        """The latest state that is good."""
        saved: Saved | None = self._keeping.last_saved() if self._keeping else None
        if saved is not None and (self._begin is None or saved.position.batches > self._begin[0]):
            return saved.position.batches, saved.tree
        return self._begin

    def _error(self, loss: float, when: str, lost: Lost | None) -> LostError:
        last = self._keeping.last if self._keeping else None
        kept = f". The last good checkpoint is {last}" if last else ""
        if self._batches is None:
            return LostError(loss, when, kept)
        error = LostError(loss, when, kept, lost)
        return error if self._elsewhere else error.with_why(self.model, self._batches, self._evaluation)


def _size(model: keras.Model) -> int:
    """Bytes of the model and its optimizer, about."""
    return 4 * sum(math.prod(variable.shape) for variable in [*model.variables, *model.optimizer.variables])
