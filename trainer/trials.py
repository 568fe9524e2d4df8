"""The results of the trials of a search, for the log, the report and the file of the best hyperparameters."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODEL_SEARCH_FILE = "model_search.json"
"""File of the search of `model.kind: auto`, in the model's run directory: `model`, as a config has it, and `search`."""
INTERNAL = "tuner/"
"""Prefix of the names of Hyperband's own values."""


@dataclass(frozen=True)
class Trial:
    """One training of a search."""

    number: int
    """Counted from 1, in the order in which they ran."""
    values: dict[str, Any]
    """Dotted name of a setting → its value."""
    epochs: int
    """Maximum number of epochs."""
    seconds: float
    score: float | None = None
    """The objective in the best epoch; None if the trial failed."""
    failure: str = ""
    """Why it failed, or was not tried."""
    left_out: bool = False
    """Whether it was not tried, as the config or the machine does not allow it."""

    @property
    def words(self) -> dict[str, str]:
        """The values as written in the config."""
        return {name: format_value(value) for name, value in self.values.items()}


@dataclass(frozen=True)
class Search:
    algorithm: str
    objective: str
    """The metric on the eval split."""
    higher_is_better: bool
    trials: tuple[Trial, ...]
    chosen: int | None = None
    """Number of the trial that was chosen, if not by the best score alone."""
    reason: str = ""
    """Why that one."""

    @property
    def best(self) -> Trial | None:
        """The trial that was chosen, else the one with the best score; of equal ones, the first."""
        scored = [trial for trial in self.ranked if trial.score is not None]
        return next((trial for trial in scored if self.chosen in {None, trial.number}), None)

    @property
    def ranked(self) -> list[Trial]:
        """The trials, best first, failed ones last."""
        sign = -1 if self.higher_is_better else 1
        return sorted(self.trials, key=lambda trial: (trial.score is None, sign * (trial.score or 0.0), trial.number))

    @property
    def names(self) -> list[str]:
        """The settings that were tried, in the config's order."""
        return list(dict.fromkeys(name for trial in self.trials for name in trial.values))

    @property
    def failed(self) -> int:
        """Number of failed trials."""
        return sum(trial.score is None and not trial.left_out for trial in self.trials)

    @property
    def tried(self) -> int:
        """Number of trials, without those that were left out."""
        return sum(not trial.left_out for trial in self.trials)

    def to_plain(self) -> dict[str, Any]:
        """Convert to plain data for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Search:
        """Parse the output of `to_plain`."""
        trials = tuple(Trial(**trial) for trial in plain["trials"])
        chosen, reason = plain.get("chosen"), plain.get("reason", "")
        return cls(plain["algorithm"], plain["objective"], plain["higher_is_better"], trials, chosen, reason)

    def table(self) -> str:
        """Format the trials for the log: one line each, best first."""
        head = ["trial", self.objective, "seconds", "epochs", *self.names]
        rows = [head, *([*_row(trial), *(trial.words.get(name, "") for name in self.names)] for trial in self.ranked)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def format_value(value: Any) -> str:
    """Format a value as in the config, numbers with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _row(trial: Trial) -> list[str]:
    without = "left out" if trial.left_out else "failed"
    score = without if trial.score is None else f"{trial.score:.5f}"
    return [str(trial.number), score, f"{trial.seconds:.1f}", str(trial.epochs)]
