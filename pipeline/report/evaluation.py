"""The evaluation section: metrics next to limits and baseline, and slices with the worst first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from headrace.components.evaluation.result import Curves, Evaluation, SliceMetrics
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.evaluate import LOWER_IS_BETTER
from headrace.pipeline.report.charts import ChartLine, Scale, line_chart, padded
from headrace.pipeline.report.formatting import value_in_words
from headrace.pipeline.results.verdict import Bound, ModelVerdict

_FROM_0_TO_1 = frozenset({"auc", "auc_precision_recall", "binary_accuracy", "precision", "recall", "accuracy"})
_BEST_AT_ONE = "calibration"
_TIMES = " \N{MULTIPLICATION SIGN} "
_MOST_SLICES = 40
FEW_EXAMPLES = 30
"""The metrics of a slice with fewer examples are mostly noise."""


@dataclass(frozen=True)
class MetricRow:
    """One metric over the whole evaluated split."""

    name: str
    value: float | None
    baseline: float | None
    bounds: list[Bound]
    in_unit_range: bool

    @property
    def change(self) -> float | None:
        """The difference from the baseline, if both have a value."""
        return None if self.value is None or self.baseline is None else self.value - self.baseline

    @property
    def better(self) -> bool | None:
        """Whether the metric improved on the baseline; None without a baseline or a change."""
        if self.value is None or self.baseline is None or not self.change:
            return None
        if self.name == _BEST_AT_ONE:
            return abs(self.value - 1) < abs(self.baseline - 1)
        return (self.change < 0) is (self.name in LOWER_IS_BETTER)


class SliceValues(NamedTuple):
    """One slice, with its value in each column that it is taken over."""

    values: tuple[str, ...]
    slice: SliceMetrics

    @property
    def value(self) -> str:
        """The values as they are in the data."""
        return ", ".join(self.values)

    @property
    def label(self) -> str:
        """The values as the page shows them."""
        return ", ".join(map(value_in_words, self.values))


@dataclass(frozen=True)
class SliceRow:
    """One slice. `at` and `baseline_at` are positions on the table's axis, in percent."""

    label: str
    slice: SliceMetrics
    at: float | None
    baseline_at: float | None

    @property
    def few(self) -> bool:
        """Whether the slice has so few examples that its metrics are mostly noise."""
        return self.slice.example_count < FEW_EXAMPLES


@dataclass(frozen=True)
class SliceTable:
    """All slices over the same columns, the worst by `metric` first. `left_out` slices, all better, are not shown.

    The axis of the picture goes from `low` to `high`.
    """

    title: str
    metric: str
    overall: float | None
    overall_at: float | None
    low: float
    high: float
    rows: list[SliceRow]
    left_out: int


@dataclass(frozen=True)
class EvaluationSection:
    """The whole section. `pictures` are (heading, chart)."""

    result: Evaluation
    metrics: list[MetricRow]
    slicings: list[SliceTable]
    pictures: list[tuple[str, Markup]]

    @property
    def names(self) -> list[str]:
        """The metrics, those with a threshold first."""
        return [metric.name for metric in self.metrics]


def evaluation_section(
    evaluation: Evaluation, verdict: ModelVerdict, config: PipelineConfig | None
) -> EvaluationSection:
    """Lay out an evaluation for the page."""
    names = _order(evaluation.metrics, config)
    return EvaluationSection(
        evaluation,
        metrics=[_metric_row(name, evaluation, verdict) for name in names],
        slicings=_slicings(evaluation, names[0], config) if names else [],
        pictures=_pictures(evaluation.curves) if evaluation.curves else [],
    )


def _order(metrics: Iterable[str], config: PipelineConfig | None) -> list[str]:
    """Metrics with a threshold first, then the order of the evaluation."""
    first = config.evaluate.thresholds if config else {}
    return sorted(metrics, key=lambda name: name not in first)


def _metric_row(name: str, evaluation: Evaluation, verdict: ModelVerdict) -> MetricRow:
    bounds = [bound for bound in verdict.bounds if bound.metric == name]
    baseline = (evaluation.baseline or {}).get(name)
    return MetricRow(name, evaluation.metrics.get(name), baseline, bounds, name in _FROM_0_TO_1)


def _slicings(evaluation: Evaluation, metric: str, config: PipelineConfig | None) -> list[SliceTable]:
    overall = evaluation.metrics.get(metric)
    return [_slicing(title, metric, overall, slices) for title, slices in group_slices(evaluation, config).items()]


def group_slices(evaluation: Evaluation, config: PipelineConfig | None) -> dict[str, list[SliceValues]]:
    """The slices by the columns that they are taken over, such as `hour`."""
    asked = config.evaluate.slices if config else ()
    columns = [tuple(sorted([slicing] if isinstance(slicing, str) else slicing)) for slicing in asked]
    groups: dict[tuple[str, ...], list[SliceValues]] = {}
    for one in evaluation.slices:
        names, values = _parse_name(one.name, columns)
        groups.setdefault(names, []).append(SliceValues(values, one))
    return {_TIMES.join(names): slices for names, slices in groups.items()}


def _parse_name(name: str, known: list[tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns and the values of a slice's name: `hour = 5, day = 1` is (hour, day) and (5, 1)."""
    for columns in sorted(known, key=len, reverse=True):
        pattern = ", ".join(f"{re.escape(column)} = (.*)" for column in columns)
        if match := re.fullmatch(pattern, name, re.DOTALL):
            return columns, match.groups()
    column, _, value = name.partition(" = ")
    return (column,), (value,)


def _slicing(title: str, metric: str, overall: float | None, slices: list[SliceValues]) -> SliceTable:
    worst_first = sorted(slices, key=lambda one: _badness(one.slice.metrics.get(metric), metric))
    shown = worst_first[:_MOST_SLICES]
    pairs = [(one.slice.metrics.get(metric), (one.slice.baseline or {}).get(metric)) for one in shown]
    values = [overall, *(value for pair in pairs for value in pair)]
    low, high = padded((value for value in values if value is not None), share=0.0)
    axis = Scale(low, high, 0.0, 100.0)
    rows = [
        SliceRow(one.label, one.slice, _position(axis, value), _position(axis, baseline))
        for one, (value, baseline) in zip(shown, pairs, strict=True)
    ]
    return SliceTable(title, metric, overall, _position(axis, overall), low, high, rows, len(slices) - len(shown))


def _badness(value: float | None, metric: str) -> tuple[bool, float]:
    """A sort key that puts the worst slice first and slices without a value last."""
    if value is None:
        return True, 0.0
    if metric == _BEST_AT_ONE:
        return False, -abs(value - 1)
    return False, -value if metric in LOWER_IS_BETTER else value


def _position(axis: Scale, value: float | None) -> float | None:
    return axis(value) if value is not None and math.isfinite(value) else None


def _pictures(curves: Curves) -> list[tuple[str, Markup]]:
    pictures = []
    if curves.roc:
        pictures.append(("ROC: true positives over false positives", _roc(curves)))
    if curves.calibration:
        pictures.append(("Calibration: share of positives over prediction", _calibration(curves)))
    return pictures


def _roc(curves: Curves) -> Markup:
    lines = [
        ChartLine("chance", [(0, 0), (1, 1)], "quiet", dots=False),
        ChartLine("model", curves.roc, "first", dots=False),
    ]
    title = "ROC curve: true positive rate over false positive rate"
    return line_chart(title, lines, x_label="false positive rate", x_range=(0, 1), y_range=(0, 1))


def _calibration(curves: Curves) -> Markup:
    lines = [
        ChartLine("perfect", [(0, 0), (1, 1)], "quiet", dots=False),
        ChartLine("model", [(predicted, share) for predicted, share, _ in curves.calibration]),
    ]
    title = "Calibration: share of positives over mean prediction"
    return line_chart(title, lines, x_label="mean prediction", x_range=(0, 1), y_range=(0, 1))
