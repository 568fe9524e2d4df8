"""Stops training at a loss that is not a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras
import tensorflow as tf

from configs.errors import TrainingError
from trainer.callbacks.checkpoint import Checkpoint
from trainer.checkpointing.checkpoints import Saved
from trainer.checkpointing.state import Tree, captured
from trainer.diagnosis import MOST_BYTES, Found, first_bad, replay

Batches = Callable[[int], Iterable[Any]]
"""From a number of batches to those that follow."""


class FiniteLoss(keras.callbacks.Callback):
    """Raises TrainingError at the first loss that is NaN or infinite, in training or evaluation.

    The loss is looked at once for each execution of `steps_per_execution` steps. Where `keeping` and the batches are
    given, the steps are then made again from the beginning of the epoch, or the last checkpoint, to name the step and
    the feature.

    keeping: counts batches, and knows the last checkpoint; batches: of the train split; evaluation: of the eval split.
    """

    def __init__(
        self,
        steps_per_execution: int,
        keeping: Checkpoint | None = None,
        batches: Batches | None = None,
        evaluation: Iterable[Any] = (),
    ) -> None:
        super().__init__()
        self.steps_per_execution = steps_per_execution
        self._keeping, self._batches, self._evaluation = keeping, batches, evaluation
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
        raise self._error(loss, f"in {steps} of epoch {self._epoch}", self._found(loss))

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Look at the eval loss."""
        loss = (logs or {}).get("val_loss", 0.0)
        if not math.isfinite(loss):
            found = first_bad(self.model, self._evaluation) if self._batches is not None else None
            where = f"on the eval split after epoch {epoch + 1}"
            words = f"In its batch {found.batches + 1}, {found.words}. " if found else ""
            raise self._error(loss, where, words)

    def _found(self, loss: float) -> str:
        """The step and the feature, as sentences; nothing where they cannot be found."""
        batches, begin = self._batches, self._begun()
        if batches is None or begin is None or self._keeping is None:
            return ""
        print(f"the loss became {loss}: making the steps since batch {begin[0]:,} again to find out why", flush=True)
        try:
            found: Found | None = replay(self.model, begin[1], batches(begin[0]))
        except (tf.errors.OpError, ValueError, TypeError, AttributeError) as error:
            print(f"that did not work: {error}", flush=True)
            return ""
        if found is None:
            return ""
        step = begin[0] + found.batches + 1 - self._keeping.batches_before
        return f"Step {step:,} of that epoch is the first bad one: {found.words}. "

    def _begun(self) -> tuple[int, Tree] | None:
        """The latest state that is good."""
        saved: Saved | None = self._keeping.last_saved() if self._keeping else None
        if saved is not None and (self._begin is None or saved.position.batches > self._begin[0]):
            return saved.position.batches, saved.tree
        return self._begin

    def _error(self, loss: float, when: str, found: str) -> TrainingError:
        last = self._keeping.last if self._keeping else None
        kept = f". The last good checkpoint is {last}" if last else ""
        return TrainingError(
            f"the loss became {loss} {when}. {found}Lower `train.learning_rate` or set `train.clip`, or look in the"
            " statistics for a numeric feature with infinite values, which have to be mended or made missing, or"
            f" extreme ones (`normalize: z_score` or `log` tames them){kept}"
        )


def _size(model: keras.Model) -> int:
    """Bytes of the model and its optimizer, about."""
    return 4 * sum(math.prod(variable.shape) for variable in [*model.variables, *model.optimizer.variables])
