"""What came of each trial of a search, as it travels with the best hyperparameters and stands in the log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

INTERNAL = "tuner/"
"""What the names of Hyperband's own values begin with."""


@dataclass(frozen=True)
class Trial:
    """One training of a search."""

    number: int
    """From 1, in the order in which they ran."""
    values: dict[str, Any]
    """Dotted name of a setting to its value."""
    epochs: int
    """It could train for so many."""
    seconds: float
    score: float | None = None
    """The objective in its best epoch; None where it failed."""
    failure: str = ""
    """Why it failed."""

    @property
    def words(self) -> dict[str, str]:
        """The values as they would stand in the config."""
        return {name: in_words(value) for name, value in self.values.items()}


@dataclass(frozen=True)
class Search:
    """All trials."""

    algorithm: str
    objective: str
    """The metric on the eval split."""
    higher_is_better: bool
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The one with the best score; of equals, the first."""
        return next((trial for trial in self.ranked if trial.score is not None), None)

    @property
    def ranked(self) -> list[Trial]:
        """Best first, those that failed last."""
        sign = -1 if self.higher_is_better else 1
        return sorted(self.trials, key=lambda trial: (trial.score is None, sign * (trial.score or 0.0), trial.number))

    @property
    def names(self) -> list[str]:
        """The settings that were tried, in the config's order."""
        return list(self.trials[0].values) if self.trials else []

    @property
    def failed(self) -> int:
        """How many failed."""
        return sum(trial.score is None for trial in self.trials)

    def to_plain(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, told: Mapping[str, Any]) -> Search:
        """The opposite of `to_plain`."""
        trials = tuple(Trial(**trial) for trial in told["trials"])
        return cls(told["algorithm"], told["objective"], told["higher_is_better"], trials)

    def table(self) -> str:
        """For the log: one line for each trial, best first."""
        head = ["trial", self.objective, "seconds", "epochs", *self.names]
        rows = [head, *([*_row(trial), *(trial.words[name] for name in self.names)] for trial in self.ranked)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def in_words(value: Any) -> str:
    """As it would stand in the config, numbers in four digits."""
    return f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _row(trial: Trial) -> list[str]:
    score = "failed" if trial.score is None else f"{trial.score:.5f}"
    return [str(trial.number), score, f"{trial.seconds:.1f}", str(trial.epochs)]
