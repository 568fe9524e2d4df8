"""Stops training at a non-finite loss, and when the optimizer's variables are no longer finite."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from headrace.common.errors import ModelError
from headrace.trainer.callbacks.checkpoint import Checkpoint
from headrace.trainer.callbacks.diagnosis import (
    GENERAL_ADVICE,
    MAX_STATE_BYTES,
    first_bad_batch,
    optimizer_variables_finite,
    replay,
)
from headrace.trainer.checkpointing.checkpoints import SavedCheckpoint, StateTree
from headrace.trainer.checkpointing.state import capture, restore

logger = logging.getLogger(__name__)

BatchesAfter = Callable[[int], Iterable[Any]]
"""From a number of batches to those that follow."""


@dataclass(frozen=True)
class NonFiniteValue:
    """A non-finite number, and the state from which to reproduce it."""

    what: str
    """The number, such as the loss, and when it occurred."""
    batches: int
    """Batches in all epochs that were trained on before `tree`; for an evaluation, 0."""
    tree: StateTree
    """The state of the model: the last good one of a training, or the one that is evaluated."""
    epoch: int
    """Batches of earlier epochs."""
    evaluating: bool

    def why(self, model: keras.Model, train: BatchesAfter, evaluation: Iterable[Any]) -> str:
        """Name the step or batch, the feature and the remedy; general advice if they cannot be found.

        Destroys the state of the model, which must be compiled and built on a single device.
        """
        try:
            return self._in_evaluation(model, evaluation) if self.evaluating else self._in_training(model, train)
        except (tf.errors.OpError, ValueError, TypeError, AttributeError) as error:
            logger.info(f"that did not work: {error}")
            return GENERAL_ADVICE

    def _in_training(self, model: keras.Model, train: BatchesAfter) -> str:
        logger.info(f"{self.what}: repeating the steps since batch {self.batches:,} to find the cause")
        found = replay(model, self.tree, train(self.batches))
        if found is None:
            return GENERAL_ADVICE
        step = self.batches + found.batches + 1 - self.epoch
        return f"Step {step:,} of that epoch is the first bad one: {found.words}. {found.remedy}"

    def _in_evaluation(self, model: keras.Model, evaluation: Iterable[Any]) -> str:
        restore(model, self.tree)
        found = first_bad_batch(model, evaluation)
        return f"In its batch {found.batches + 1}, {found.words}. {found.remedy}" if found else GENERAL_ADVICE


class NonFiniteLossError(ModelError):
    """The loss or a variable of the optimizer is not finite.

    `value` is set if the diagnosis is left to be done on a single device.
    """

    def __init__(
        self, what: str, checkpoint: str, value: NonFiniteValue | None = None, why: str = GENERAL_ADVICE
    ) -> None:
        self.checkpoint, self.value = checkpoint, value
        super().__init__(f"{what}. {why}{checkpoint}")

    def diagnosed(self, model: keras.Model, train: BatchesAfter, evaluation: Iterable[Any]) -> NonFiniteLossError:
        """Return the same error with the step and the feature."""
        if self.value is None:
            return self
        why = self.value.why(model, train, evaluation)
        return NonFiniteLossError(self.value.what, self.checkpoint, why=why)


class FiniteLoss(keras.callbacks.Callback):
    """Raises NonFiniteLossError at the first loss that is NaN or infinite, in training or evaluation.

    It also raises at the end of an epoch after which a variable of the optimizer is not finite: the weights may still
    be finite then, but no longer learn.

    The loss is checked once per execution of `steps_per_execution` steps. If possible, the steps since the start of the
    epoch or the last checkpoint are then repeated, to name the step and the feature.
    """

    def __init__(
        self,
        steps_per_execution: int,
        checkpoint: Checkpoint | None = None,
        batches_after: BatchesAfter | None = None,
        evaluation: Callable[[], Iterable[Any]] = tuple,
        *,
        elsewhere: bool = False,
    ) -> None:
        """
        Args:
            steps_per_execution: Steps that run as one graph.
            checkpoint: Counts batches, and knows the last checkpoint.
            batches_after: Reopens the train split; None: do not repeat steps.
            evaluation: Creates the batches of the eval split.
            elsewhere: Whether the handler of the error repeats the steps, for a model that is on several devices here.
        """
        super().__init__()
        self.steps_per_execution = steps_per_execution
        self._checkpoint, self._batches_after, self._evaluation = checkpoint, batches_after, evaluation
        self._elsewhere = elsewhere
        self._epoch = 0
        self._begin: tuple[int, StateTree] | None = None

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Save the state at the start of the epoch."""
        self._epoch = epoch + 1
        if self._batches_after is None or self._checkpoint is None or _state_bytes(self.model) > MAX_STATE_BYTES:
            return
        self._begin = self._checkpoint.batches, capture(self.model)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Check the loss of the last execution."""
        loss = (logs or {}).get("loss", 0.0)
        if math.isfinite(loss):
            return
        first = batch + 2 - self.steps_per_execution
        last = min(batch + 1, (self.params or {}).get("steps") or batch + 1)  # an epoch's last execution may be shorter
        steps = f"step {last}" if first == last else f"steps {first} to {last}"
        raise self._in_training(f"the loss became {loss} in {steps} of epoch {self._epoch}")

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Check the optimizer and the eval loss."""
        if not optimizer_variables_finite(self.model):
            raise self._in_training(f"a variable of the optimizer became infinite in epoch {epoch + 1}")
        loss = (logs or {}).get("val_loss", 0.0)
        if not math.isfinite(loss):
            what = f"the loss became {loss} on the eval split after epoch {epoch + 1}"
            value = None
            if self._batches_after is not None:
                value = NonFiniteValue(what, 0, capture(self.model), 0, evaluating=True)
            raise self._error(what, value)

    def _last_good(self) -> tuple[int, StateTree] | None:
        """The latest good state, and the batches before it."""
        saved: SavedCheckpoint | None = self._checkpoint.last_saved() if self._checkpoint else None
        if saved is not None and (self._begin is None or saved.position.batches > self._begin[0]):
            return saved.position.batches, saved.tree
        return self._begin

    def _in_training(self, what: str) -> NonFiniteLossError:
        begin, before = self._last_good(), self._checkpoint.batches_before if self._checkpoint else 0
        return self._error(what, NonFiniteValue(what, *begin, before, evaluating=False) if begin else None)

    def _error(self, what: str, value: NonFiniteValue | None) -> NonFiniteLossError:
        last = self._checkpoint.last if self._checkpoint else None
        checkpoint = f". The last good checkpoint is {last}" if last else ""
        if self._batches_after is None:
            return NonFiniteLossError(what, checkpoint)
        error = NonFiniteLossError(what, checkpoint, value)
        return error if self._elsewhere else error.diagnosed(self.model, self._batches_after, self._evaluation())


def _state_bytes(model: keras.Model) -> int:
    """Approximate size of the model and its optimizer in bytes."""
    return 4 * sum(math.prod(variable.shape) for variable in [*model.variables, *model.optimizer.variables])
