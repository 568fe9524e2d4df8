"""Records the epochs of a training: a line in the log for each, and `training.json` next to the TensorBoard logs."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

logger = logging.getLogger(__name__)

FILE = "training.json"
INTERVAL = 10.0
"""Seconds between two lines within an epoch."""


@dataclass(frozen=True)
class Epoch:
    epoch: int
    """Counted from 1."""
    seconds: float
    """Duration of its training steps and its evaluation."""
    examples_per_second: float
    """Speed of its training steps."""
    metrics: dict[str, float]
    """Keras' names: `loss` and the metrics of the label's kind; with the prefix `val_` for the eval split."""


@dataclass(frozen=True)
class History:
    """A whole training."""

    epochs: list[Epoch]
    best_epoch: int
    """The epoch with the lowest eval loss, from 1, whose weights were exported."""
    stopped_early: bool
    parameters: int
    """Number of parameters of the model."""
    examples: dict[str, int]
    """Number of examples per epoch in the splits `train` and `eval`."""
    input: str
    """The choices of the input pipeline, and their reasons."""
    remarks: tuple[str, ...] = ()
    """What a user should see when the run ends."""
    chosen: dict[str, str] = dataclasses.field(default_factory=dict)
    """The choices for other settings of `train:`, such as `strategy`, and their reasons."""

    def write(self, directory: Path) -> None:
        """Write `training.json`."""
        (directory / FILE).write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")


class EpochLog(keras.callbacks.Callback):
    """Fills `epochs`, and logs lines like `epoch 3/10: loss 0.41, val_loss 0.39, auc 0.91; 1.2 s, 84,000 examples/s`.

    In a long epoch it also logs lines like `epoch 3/10, step 1,200 of 4,000: loss 0.44; 65 steps/s, 7 min left`. The
    seconds of an epoch include its training steps and its evaluation; the examples per second, and the time left, are
    those of training steps only.
    """

    def __init__(
        self,
        epochs: int,
        examples: Callable[[int], int],
        steps: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """
        Args:
            epochs: Planned number of epochs.
            examples: Number of examples in each epoch, once this many are done.
            steps: Steps in an epoch, None if that is not known.
            clock: Seconds.
        """
        super().__init__()
        self.epochs: list[Epoch] = []
        self._planned, self._examples, self._steps, self._clock = epochs, examples, steps, clock
        self._begun = self._trained = self._before = 0.0
        self._epoch, self._logged, self._logged_step = 0, 0.0, 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Start the clock."""
        now = self._clock()
        self._begun = self._trained = now - self._before
        self._before = 0.0
        self._epoch, self._logged, self._logged_step = epoch, now, 0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Record the time of the last step, and log the progress if that was not done for a while."""
        self._trained = self._clock()
        if self._trained - self._logged >= INTERVAL:
            self._log_progress(batch + 1, logs or {})

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        seconds = self._clock() - self._begun
        rate = self._examples(epoch + 1) / max(self._trained - self._begun, 1e-9)
        metrics = {name: float(value) for name, value in (logs or {}).items()}
        self._begun = self._trained = 0.0
        self.epochs.append(Epoch(epoch + 1, seconds, rate, metrics))
        shown = ", ".join(f"{name} {metrics[name]:.4g}" for name in sorted(metrics, key=_loss_first))
        logger.info(f"epoch {epoch + 1}/{self._planned}: {shown}; {seconds:.1f} s, {rate:,.0f} examples/s")

    def _log_progress(self, step: int, logs: Mapping[str, float]) -> None:
        rate = (step - self._logged_step) / (self._trained - self._logged)
        steps = self._steps
        left = (self._planned - self._epoch) * steps - step if steps else 0
        logger.info(
            f"epoch {self._epoch + 1}/{self._planned}, step {step:,}{f' of {steps:,}' if steps else ''}:"
            f" loss {float(logs.get('loss', math.nan)):.4g}; {rate:,.{0 if rate >= 10 else 1}f} steps/s"
            f"{f', {_duration(left / rate)} left' if left > 0 < rate else ''}"
        )
        self._logged, self._logged_step = self._trained, step

    def state(self) -> dict[str, Any]:
        return {"epochs": [dataclasses.asdict(epoch) for epoch in self.epochs], "seconds": self._trained - self._begun}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint, which may be in the middle of an epoch."""
        self.epochs[:] = [Epoch(**epoch) for epoch in state["epochs"]]
        self._before = state["seconds"]


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def _loss_first(name: str) -> tuple[bool, str, bool]:
    plain = name.removeprefix("val_")
    return plain != "loss", plain, name != plain
