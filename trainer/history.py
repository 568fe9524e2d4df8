"""What happened in training, as one JSON file beside the TensorBoard logs."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

FILE = "training.json"


@dataclass(frozen=True)
class Epoch:
    """One epoch, counted from 1."""

    epoch: int
    seconds: float
    """Of its training steps and its evaluation."""
    examples_per_second: float
    """Of its training steps."""
    metrics: dict[str, float]
    """As Keras names them: `loss` and the metrics of the label's kind; with `val_` in front on the eval split."""


@dataclass(frozen=True)
class History:
    """A whole training."""

    epochs: list[Epoch]
    best_epoch: int
    """The one with the lowest eval loss, from 1: its weights were exported."""
    stopped_early: bool
    parameters: int
    """Numbers that the model has learned."""
    examples: dict[str, int]
    """For the splits `train` and `eval`, how many an epoch had."""
    input: str
    """What the input pipeline chose, and why."""
    remarks: tuple[str, ...] = ()
    """What a user should see when the run ends."""
    chosen: dict[str, str] = dataclasses.field(default_factory=dict)
    """For other settings of `train:`, such as `strategy`, what was chosen, and why."""

    def write(self, directory: Path) -> None:
        """Write `training.json`."""
        (directory / FILE).write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
