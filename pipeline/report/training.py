"""What the Trainer wrote down of its epochs (`training.json`)."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

FILE_NAME = "training.json"
VALIDATION = "val_"


class Epoch(BaseModel):
    """One pass over the train split; `metrics` are Keras's, those of the eval split prefixed with `val_`."""

    model_config = ConfigDict(frozen=True)

    epoch: int
    seconds: float | None = None
    examples_per_second: float | None = None
    metrics: dict[str, float] = {}


class Training(BaseModel):
    """A whole training."""

    model_config = ConfigDict(frozen=True)

    epochs: tuple[Epoch, ...] = ()
    best_epoch: int | None = None
    stopped_early: bool = False
    parameters: int | None = None
    examples: dict[str, int] = {}
    input: str = ""
    remarks: tuple[str, ...] = ()
    chosen: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """The metrics, without the eval split's prefix, in the order of the first epoch."""
        seen = [name.removeprefix(VALIDATION) for epoch in self.epochs for name in epoch.metrics]
        return list(dict.fromkeys(seen))

    def curve(self, metric: str) -> list[tuple[float, float]]:
        """(epoch, value) of a metric by its full name."""
        return [(epoch.epoch, epoch.metrics[metric]) for epoch in self.epochs if metric in epoch.metrics]

    @property
    def best(self) -> Epoch | None:
        """The epoch whose weights were exported."""
        return next((epoch for epoch in self.epochs if epoch.epoch == self.best_epoch), None)

    @property
    def examples_per_second(self) -> float | None:
        """Median over the epochs."""
        rates = sorted(epoch.examples_per_second for epoch in self.epochs if epoch.examples_per_second is not None)
        return rates[len(rates) // 2] if rates else None


def read_training(directory: Path | None) -> Training | None:
    """The training in a ModelRun artifact; None if there is none that can be read."""
    if directory is None:
        return None
    try:
        return Training.model_validate_json((directory / FILE_NAME).read_bytes())
    except (OSError, ValidationError):
        return None
