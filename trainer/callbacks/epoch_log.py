"""Records every epoch, and prints one line for each, and within a long one a line now and then."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras

from headrace.trainer.history import Epoch

EVERY = 10.0
"""Seconds between two lines within an epoch."""


class EpochLog(keras.callbacks.Callback):
    """Fills `epochs`, and prints lines like `epoch 3/10: loss 0.41, val_loss 0.39, auc 0.91; 1.2 s, 84,000 examples/s`,
    and between them lines like `epoch 3/10, step 1,200 of 4,000: loss 0.44; 65 steps/s, 7 min left`.

    examples: how many an epoch of training holds, once that many are done; steps: of an epoch, None where that is not
    known; clock: seconds. An epoch's seconds hold its training steps and its evaluation; its examples per second, and
    the time that is left, the training steps alone.
    """

    def __init__(
        self,
        epochs: int,
        examples: Callable[[int], int],
        steps: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__()
        self.epochs: list[Epoch] = []
        self._planned, self._examples, self._steps, self._clock = epochs, examples, steps, clock
        self._begun = self._trained = self._before = 0.0
        self._epoch, self._told, self._told_step = 0, 0.0, 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Start the clock."""
        now = self._clock()
        self._begun = self._trained = now - self._before
        self._before = 0.0
        self._epoch, self._told, self._told_step = epoch, now, 0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Note the time of the last step, and tell how far it is if that was not told for a while."""
        self._trained = self._clock()
        if self._trained - self._told >= EVERY:
            self._tell(batch + 1, logs or {})

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Record and print."""
        seconds = self._clock() - self._begun
        rate = self._examples(epoch + 1) / max(self._trained - self._begun, 1e-9)
        metrics = {name: float(value) for name, value in (logs or {}).items()}
        self._begun = self._trained = 0.0
        self.epochs.append(Epoch(epoch + 1, seconds, rate, metrics))
        shown = ", ".join(f"{name} {metrics[name]:.4g}" for name in sorted(metrics, key=_loss_first))
        print(f"epoch {epoch + 1}/{self._planned}: {shown}; {seconds:.1f} s, {rate:,.0f} examples/s", flush=True)

    def _tell(self, step: int, logs: Mapping[str, float]) -> None:
        rate = (step - self._told_step) / (self._trained - self._told)
        steps = self._steps
        left = (self._planned - self._epoch) * steps - step if steps else 0
        print(
            f"epoch {self._epoch + 1}/{self._planned}, step {step:,}{f' of {steps:,}' if steps else ''}:"
            f" loss {float(logs.get('loss', math.nan)):.4g}; {rate:,.{0 if rate >= 10 else 1}f} steps/s"
            f"{f', {_in_words(left / rate)} left' if left > 0 < rate else ''}",
            flush=True,
        )
        self._told, self._told_step = self._trained, step

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"epochs": [dataclasses.asdict(epoch) for epoch in self.epochs], "seconds": self._trained - self._begun}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint, in the middle of an epoch too."""
        self.epochs[:] = [Epoch(**epoch) for epoch in state["epochs"]]
        self._before = state["seconds"]


def _in_words(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def _loss_first(name: str) -> tuple[bool, str, bool]:
    plain = name.removeprefix("val_")
    return plain != "loss", plain, name != plain
