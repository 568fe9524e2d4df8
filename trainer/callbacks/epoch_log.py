"""Records every epoch, and prints one line for each."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import keras

from trainer.history import Epoch


class EpochLog(keras.callbacks.Callback):
    """Fills `epochs`, and prints lines like `epoch 3/10: loss 0.41, val_loss 0.39, auc 0.91; 1.2 s, 84,000 examples/s`.

    examples: how many an epoch of training holds, once that many are done; clock: seconds. An epoch's seconds hold its
    training steps and its evaluation, the examples per second the training steps alone.
    """

    def __init__(
        self, epochs: int, examples: Callable[[int], int], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        super().__init__()
        self.epochs: list[Epoch] = []
        self._planned, self._examples, self._clock = epochs, examples, clock
        self._begun = self._trained = self._before = 0.0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Start the clock."""
        self._begun = self._trained = self._clock() - self._before
        self._before = 0.0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:  # noqa: ARG002
        """Note the time of the last step."""
        self._trained = self._clock()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Record and print."""
        seconds = self._clock() - self._begun
        rate = self._examples(epoch + 1) / max(self._trained - self._begun, 1e-9)
        metrics = {name: float(value) for name, value in (logs or {}).items()}
        self._begun = self._trained = 0.0
        self.epochs.append(Epoch(epoch + 1, seconds, rate, metrics))
        shown = ", ".join(f"{name} {metrics[name]:.4g}" for name in sorted(metrics, key=_loss_first))
        print(f"epoch {epoch + 1}/{self._planned}: {shown}; {seconds:.1f} s, {rate:,.0f} examples/s", flush=True)

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"epochs": [dataclasses.asdict(epoch) for epoch in self.epochs], "seconds": self._trained - self._begun}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint, in the middle of an epoch too."""
        self.epochs[:] = [Epoch(**epoch) for epoch in state["epochs"]]
        self._before = state["seconds"]


def _loss_first(name: str) -> tuple[bool, str, bool]:
    plain = name.removeprefix("val_")
    return plain != "loss", plain, name != plain
