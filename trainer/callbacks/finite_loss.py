"""Stops training at a loss that is not a number."""

from __future__ import annotations

import math
from collections.abc import Mapping

import keras

from configs.errors import TrainingError


class FiniteLoss(keras.callbacks.Callback):
    """Raises TrainingError at the first loss that is NaN or infinite, in training or evaluation.

    The loss is looked at once for each execution of `steps_per_execution` steps, so the error names a range of steps.
    """

    def __init__(self, steps_per_execution: int) -> None:
        super().__init__()
        self.steps_per_execution = steps_per_execution
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Remember the epoch for the message."""
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Look at the loss of the steps just made."""
        loss = (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            first = batch + 2 - self.steps_per_execution
            last = min(batch + 1, (self.params or {}).get("steps") or batch + 1)  # an epoch's last execution is short
            steps = f"step {last}" if first == last else f"steps {first} to {last}"
            raise self._error(loss, f"in {steps} of epoch {self._epoch}")

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Look at the eval loss."""
        loss = (logs or {}).get("val_loss", 0.0)
        if not math.isfinite(loss):
            raise self._error(loss, f"on the eval split after epoch {epoch + 1}")

    def _error(self, loss: float, when: str) -> TrainingError:
        return TrainingError(
            f"the loss became {loss} {when}. Lower `train.learning_rate`, or look in the statistics for a numeric"
            " feature with infinite values, which have to be mended or made missing, or extreme ones"
            " (`normalize: z_score` or `log` tames them)"
        )
