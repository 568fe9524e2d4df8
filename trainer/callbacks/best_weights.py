"""Keeps the weights of the epoch with the lowest eval loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras


class BestWeights(keras.callbacks.Callback):
    """Puts the best epoch's weights back when training ends, and writes them to `path`.

    epoch: the best one, from 1; 0 before the first. Unlike early stopping it counts every fall, however small. In
    between the weights are kept in memory: writing the file takes as long as an epoch over small data.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.epoch = 0
        self._lowest = math.inf
        self._weights: list[Any] = []

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Keep the weights if they are the best so far."""
        if (loss := (logs or {})["val_loss"]) < self._lowest:
            self._lowest, self.epoch = float(loss), epoch + 1
            self._weights = self.model.get_weights()

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Put the best weights back, and write them."""
        self.model.set_weights(self._weights)
        self.model.save_weights(self.path)

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"epoch": self.epoch, "lowest": self._lowest, "weights": self._weights}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.epoch, self._lowest, self._weights = state["epoch"], state["lowest"], state["weights"]
