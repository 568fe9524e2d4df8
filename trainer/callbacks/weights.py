"""Which weights are evaluated and exported: moving averages, and those of the best epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from headrace.trainer.private_api import moving_averages


class BestWeights(keras.callbacks.Callback):
    """Restores the weights of the epoch with the lowest eval loss when training ends, and writes them to `path`.

    `epoch` is the best one, from 1; 0 before the first. Unlike early stopping, any decrease counts. During training the
    weights are kept in memory: writing the file takes as long as an epoch over small data.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.epoch = 0
        self._lowest = math.inf
        self._weights: list[Any] = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Copy the weights if they are the best so far."""
        if (loss := (logs or {})["val_loss"]) < self._lowest:
            self._lowest, self.epoch = float(loss), epoch + 1
            self._weights = [np.asarray(one) for one in self.model.get_weights()]  # also scalars, for checkpoints

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Restore and write the best weights."""
        self.restore_weights()
        self.model.save_weights(self.path)

    def restore_weights(self) -> None:
        """Restore the best weights; before the end of the first epoch, do nothing."""
        if self._weights:
            self.model.set_weights(self._weights)

    def state(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "lowest": self._lowest, "weights": self._weights}

    def restore(self, state: dict[str, Any]) -> None:
        self.epoch, self._lowest, self._weights = state["epoch"], state["lowest"], state["weights"]


class Averages(keras.callbacks.Callback):
    """Evaluates the moving averages of the weights, for an optimizer with `use_ema`; for others it does nothing.

    Replaces the weights by the averages for the evaluation, and restores them at the end of the epoch. Must come after
    the callback that saves the best weights, which are the averages then.
    """

    def __init__(self) -> None:
        super().__init__()
        self._swapped = False

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:
        if not self._swapped:
            self._swap()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Swap in the weights."""
        if self._swapped:
            self._swap()

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint, which may be written during an evaluation."""
        return {"swapped": self._swapped}

    def restore(self, state: dict[str, Any]) -> None:
        self._swapped = state["swapped"]
        if self._swapped:
            self._swap()

    def _swap(self) -> None:
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        if not getattr(optimizer, "use_ema", False):
            return
        self._swapped = not self._swapped
        for weight, average in zip(self.model.trainable_variables, moving_averages(optimizer), strict=True):
            before = np.array(keras.ops.convert_to_numpy(weight))
            weight.assign(average)
            average.assign(before)
