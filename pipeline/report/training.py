"""The training sections: the epochs that the Trainer recorded, their curves, and the Tuner's trials."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from pydantic import BaseModel, ValidationError

from headrace.pipeline.report.charts import ChartLine, line_chart
from headrace.pipeline.results.run_folder import RunFolder
from headrace.trainer.trials import MODEL_SEARCH_FILE, Search

FILE_NAME = "training.json"
SEARCH_FILE_NAME = "best_hyperparameters.txt"
VALIDATION = "val_"
_KIND = re.compile(r"\w+")
"""The kind of model before what it depended on, such as `tabm` in `tabm: auto, for 2,000 examples`."""


class EpochRecord(BaseModel, frozen=True):
    """One pass over the train split. `metrics` are Keras's; those of the eval split have the prefix `val_`."""

    epoch: int
    seconds: float | None = None
    examples_per_second: float | None = None
    metrics: dict[str, float] = {}


class TrainingHistory(BaseModel, frozen=True):
    """A whole training, as `training.json` has it."""

    epochs: tuple[EpochRecord, ...] = ()
    best_epoch: int | None = None
    stopped_early: bool = False
    parameters: int | None = None
    examples: dict[str, int] = {}
    input: str = ""
    remarks: tuple[str, ...] = ()
    chosen: dict[str, str] = {}

    @property
    def kind(self) -> str:
        """The kind of model that `auto` or the default became; "" for one that the config names."""
        found = _KIND.match(self.chosen.get("model", ""))
        return found[0] if found else ""

    @property
    def names(self) -> list[str]:
        """The metrics, without the eval split's prefix, in the order of the first epoch."""
        names = [name.removeprefix(VALIDATION) for epoch in self.epochs for name in epoch.metrics]
        return list(dict.fromkeys(names))

    def curve(self, metric: str) -> list[tuple[float, float]]:
        """(epoch, value) of a metric, given with its prefix."""
        return [(epoch.epoch, epoch.metrics[metric]) for epoch in self.epochs if metric in epoch.metrics]

    @property
    def best(self) -> EpochRecord | None:
        """The epoch whose weights were exported."""
        return next((epoch for epoch in self.epochs if epoch.epoch == self.best_epoch), None)

    @property
    def examples_per_second(self) -> float | None:
        """Median over the epochs."""
        rates = sorted(epoch.examples_per_second for epoch in self.epochs if epoch.examples_per_second is not None)
        return rates[len(rates) // 2] if rates else None


@dataclass(frozen=True)
class MetricCurve:
    """One metric over the epochs. `best` is its value in the best epoch, on the eval split if it was measured there."""

    metric: str
    picture: Markup
    best: float | None


def read_training(directory: Path | None) -> TrainingHistory | None:
    """The training in a ModelRun artifact; None if there is none that can be read."""
    if directory is None:
        return None
    try:
        return TrainingHistory.model_validate_json((directory / FILE_NAME).read_bytes())
    except (OSError, ValidationError):
        return None


def draw_curves(training: TrainingHistory) -> list[MetricCurve]:
    """One chart per metric with train and eval split; the loss first, then the order of the first epoch."""
    names = sorted(training.names, key=lambda name: name != "loss")
    return [_curve(training, name) for name in names]


def read_searches(folder: RunFolder) -> Search | None:
    """The search of a run: the Tuner's, or the one for the kind of model; None if there was none that can be read."""
    tuned = _read_search(folder.directory("Tuner", "best_hyperparameters"), SEARCH_FILE_NAME, "headrace")
    return tuned or _read_search(folder.directory("Trainer", "model_run"), MODEL_SEARCH_FILE)


def _read_search(directory: Path | None, file: str, *keys: str) -> Search | None:
    """The field `search` of a JSON file, below the given keys."""
    if directory is None:
        return None
    try:
        content = json.loads((directory / file).read_text(encoding="utf-8"))
        for key in keys:
            content = content[key]
        return Search.from_plain(content["search"])
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _curve(training: TrainingHistory, metric: str) -> MetricCurve:
    lines = [
        ChartLine(name, points, style)
        for name, key, style in (("train", metric, "first"), ("eval", VALIDATION + metric, "second"))
        if (points := training.curve(key))
    ]
    best = training.best
    picture = line_chart(
        f"{metric} by epoch",
        lines,
        x_label="epoch",
        whole_x=True,
        mark=(best.epoch, f"best: {best.epoch}") if best else None,
    )
    value = best.metrics.get(VALIDATION + metric, best.metrics.get(metric)) if best else None
    return MetricCurve(metric, picture, value)
