"""Evaluates, and keeps, the moving averages of the weights, where the optimizer takes them (`use_ema`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from headrace.trainer.private_api import averages


class Averages(keras.callbacks.Callback):
    """Puts the averages in the place of the weights from the evaluation on, and the weights back at the epoch's end.

    Has to come after the callback that keeps the best weights. Does nothing for an optimizer without averages.
    """

    def __init__(self) -> None:
        super().__init__()
        self._swapped = False

    def on_test_begin(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Judge the averages."""
        if not self._swapped:
            self._swap()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Go on with the weights."""
        if self._swapped:
            self._swap()

    def state(self) -> dict[str, Any]:
        """For a checkpoint, which may be made in the middle of an evaluation."""
        return {"swapped": self._swapped}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._swapped = state["swapped"]
        if self._swapped:
            self._swap()

    def _swap(self) -> None:
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        if not getattr(optimizer, "use_ema", False):
            return
        self._swapped = not self._swapped
        for weight, average in zip(self.model.trainable_variables, averages(optimizer), strict=True):
            before = np.array(keras.ops.convert_to_numpy(weight))
            weight.assign(average)
            average.assign(before)
