"""What an evaluation came to: `evaluation.json` beside TFMA's own files. Reading it needs neither TensorFlow nor TFMA.

evaluation = read_evaluation(record.node("Evaluator").outputs["evaluation"].uri)
evaluation.metrics["auc"], evaluation.blessed, evaluation.reasons
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from headrace.configs.errors import RunError

FILE_NAME = "evaluation.json"

Metrics = dict[str, float | None]
"""Values by the metric's name in the config; None: it has no value (such as precision where nothing is predicted)."""


@dataclass(frozen=True)
class SliceMetrics:
    """One value of a column, or one combination of values, such as `trip_start_hour = 5`."""

    name: str
    metrics: Metrics
    example_count: int
    baseline: Metrics | None


@dataclass(frozen=True)
class Check:
    """One bound of one threshold.

    limit: what the value had to reach; for `not_worse_than_baseline_by` the baseline's value is taken into it.
    """

    metric: str
    bound: Literal["min", "max", "not_worse_than_baseline_by"]
    limit: float | None
    value: float | None
    baseline: float | None
    passed: bool

    def __str__(self) -> str:
        """As a line for people: `auc is 0.71, below min 0.8`."""
        if self.value is None:
            return f"{self.metric} has no value to hold against {self.bound}"
        if self.limit is None:
            return f"{self.metric} is {self.value:.4g}, and the baseline's has no value"
        relation = "within" if self.passed else "above" if self.value > self.limit else "below"
        if self.baseline is None:
            return f"{self.metric} is {self.value:.4g}, {relation} {self.bound} {self.limit:.4g}"
        allowed = f"{self.limit:.4g}, which the baseline's {self.baseline:.4g} allows"
        return f"{self.metric} is {self.value:.4g}, {relation} {allowed}"


@dataclass(frozen=True)
class Curves:
    """For binary labels. `roc`: (false positive rate, true positive rate), from (0, 0) to (1, 1); `calibration`: for
    each tenth of the predictions' range (mean prediction, share of positives, examples).
    """

    roc: tuple[tuple[float, float], ...]
    calibration: tuple[tuple[float, float, int], ...]


@dataclass(frozen=True)
class Evaluation:
    """Metrics over the whole split, over its slices, and the verdict.

    unlabelled: examples left out because their label is missing or none of the classes; reasons: why it is not
    blessed, empty if it is.
    """

    split: str
    example_count: int
    unlabelled: int
    metrics: Metrics
    baseline: Metrics | None
    slices: tuple[SliceMetrics, ...]
    checks: tuple[Check, ...]
    blessed: bool
    reasons: tuple[str, ...]
    curves: Curves | None


_ADAPTER = TypeAdapter(Evaluation)


def write_evaluation(uri: str | Path, evaluation: Evaluation) -> None:
    """Write `evaluation.json` into the artifact's directory."""
    (Path(uri) / FILE_NAME).write_bytes(_ADAPTER.dump_json(evaluation, indent=1))


def read_evaluation(uri: str | Path) -> Evaluation:
    """The evaluation in an artifact's directory; RunError if there is none that can be read."""
    path = Path(uri) / FILE_NAME
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RunError(f"{path}: no evaluation can be read there: {error}") from None
