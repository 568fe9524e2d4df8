"""The evaluation section: metrics next to limits and baseline, and slices with the worst first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.components.evaluation.result import (
    ClassMetrics,
    Confusion,
    Curves,
    DecisionPoint,
    Evaluation,
    Interval,
    SliceMetrics,
)
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.metrics import NEITHER_IS_BETTER, base_of, is_fraction, lower_is_better, own_name
from headrace.pipeline.report.charts import Picture, Scale, padded
from headrace.pipeline.report.curves import curve_pictures
from headrace.pipeline.report.explanation import (
    ExplanationSection,
    WorstTable,
    explanation_section,
    worst_table,
)
from headrace.pipeline.report.formatting import figure, value_in_words
from headrace.pipeline.results.verdict import Bound, ModelVerdict

_BEST_AT_ONE = "calibration"
_TIMES = " \N{MULTIPLICATION SIGN} "
_MOST_SLICES = 40
_MOST_CLASSES = 50
_DECISIONS = 9
"""Thresholds in the table of decisions."""
_MOST_DIGITS = 9
"""Digits of a float32, in which predictions are computed."""
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
    interval: Interval | None = None
    change_interval: Interval | None = None

    @property
    def change(self) -> float | None:
        """The difference from the baseline, if both have a value."""
        return None if self.value is None or self.baseline is None else self.value - self.baseline

    @property
    def better(self) -> bool | None:
        """Whether the metric improved on the baseline.

        None without a baseline or a change, and for a change whose 95% interval contains 0, as it may be chance. None
        for a calibration of which that interval does not say whether it is nearer to 1.
        """
        if self.value is None or self.baseline is None or not self.change or base_of(self.name) in NEITHER_IS_BETTER:
            return None
        if self.change_interval is not None and self.change_interval[0] <= 0 <= self.change_interval[1]:
            return None
        if own_name(self.name) == _BEST_AT_ONE:
            distances = [abs(self.baseline + one - 1) for one in self.change_interval or (self.change,)]
            nearer = {distance < abs(self.baseline - 1) for distance in distances}
            return nearer.pop() if len(nearer) == 1 else None
        return (self.change < 0) is lower_is_better(self.name)


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
    """One slice. Positions on the table's axis are in percent; `ends_at`: those of the confidence interval."""

    label: str
    slice: SliceMetrics
    at: float | None
    baseline_at: float | None
    ends_at: tuple[float, float] | None = None

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
class ClassRow:
    """One class as a label. shares: of its examples by what is predicted for them, in the order of the classes."""

    name: str
    weight: float
    counts: tuple[float, ...]
    shares: tuple[float, ...]
    precision: float | None
    recall: float | None
    f1: float | None


class TaskSection(NamedTuple):
    """What is shown of one of several labels."""

    name: str
    section: EvaluationSection


class LabelRow(NamedTuple):
    """How well one class is told from the others."""

    name: str
    metrics: ClassMetrics


@dataclass(frozen=True)
class EvaluationSection:
    """The whole section. classes: those with an AUC of their own, the lowest first; tasks: of several labels,
    with the pictures and tables of each.
    """

    result: Evaluation
    metrics: list[MetricRow]
    slicings: list[SliceTable]
    pictures: list[Picture]
    confusion: list[ClassRow]
    classes: list[LabelRow]
    decisions: list[DecisionPoint]
    explanation: ExplanationSection | None
    worst: WorstTable | None
    tasks: list[TaskSection] = field(default_factory=list)

    @property
    def has_intervals(self) -> bool:
        """Whether any metric has a confidence interval."""
        return any(metric.interval for metric in self.metrics)

    @property
    def decision_digits(self) -> int:
        """The digits, at least 3, by which the thresholds of decisions differ from each other and from 1."""
        values = [point.threshold for point in self.decisions]
        shown = ({figure(value, digits) for value in [*values, 1.0]} for digits in range(3, _MOST_DIGITS))
        different = len({*values, 1.0})
        return next((digits for digits, texts in enumerate(shown, 3) if len(texts) == different), _MOST_DIGITS)

    @property
    def names(self) -> list[str]:
        """The metrics, those with a threshold first."""
        return [metric.name for metric in self.metrics]


def evaluation_section(
    evaluation: Evaluation,
    verdict: ModelVerdict,
    config: PipelineConfig | None,
    *,
    rows: bool = False,
) -> EvaluationSection:
    """Lay out an evaluation for the page.

    rows: whether the page may show rows, and the values that partial dependence is computed at. What is made for others
    to see shows neither.
    """
    section = _section(evaluation, verdict, config, config.label if config else None, rows=rows)
    parts = config.label.parts if config else {}
    tasks = [
        TaskSection(name, _section(one, verdict, config, parts.get(name), rows=rows))
        for name, one in evaluation.tasks.items()
    ]
    return replace(section, tasks=tasks)


def _section(
    evaluation: Evaluation,
    verdict: ModelVerdict,
    config: PipelineConfig | None,
    label: LabelConfig | None,
    *,
    rows: bool,
) -> EvaluationSection:
    """The section without tasks. label: what was evaluated."""
    names = _order(evaluation.metrics, config)
    return EvaluationSection(
        evaluation,
        metrics=[_metric_row(name, evaluation, verdict) for name in names],
        slicings=_slicings(evaluation, names[0], config) if names else [],
        pictures=curve_pictures(evaluation),
        confusion=_class_rows(evaluation.confusion, label) if evaluation.confusion else [],
        classes=_label_rows(evaluation.classes, label),
        decisions=_shown_decisions(evaluation.curves) if evaluation.curves else [],
        explanation=explanation_section(
            evaluation.explanation, label, values=rows, categories=_categories(config) if config else ()
        ),
        worst=worst_table(evaluation.worst) if evaluation.worst and rows else None,
    )


def _categories(config: PipelineConfig) -> set[str]:
    """The data columns whose values no feature takes for numbers in an order, such as postcodes in a vocabulary."""
    features = config.declared_features
    read = [(column, one.ordered) for name, one in features.items() for column in one.column_settings(name).values()]
    return {column for column, _ in read} - {column for column, ordered in read if ordered}


def _order(metrics: Iterable[str], config: PipelineConfig | None) -> list[str]:
    """Metrics with a threshold first, then the order of the evaluation."""
    first = config.evaluate.thresholds if config else {}
    return sorted(metrics, key=lambda name: name not in first)


def _metric_row(name: str, evaluation: Evaluation, verdict: ModelVerdict) -> MetricRow:
    bounds = [bound for bound in verdict.bounds if bound.metric == name]
    baseline = (evaluation.baseline or {}).get(name)
    return MetricRow(
        name,
        evaluation.metrics.get(name),
        baseline,
        bounds,
        is_fraction(name),
        evaluation.intervals.get(name),
        evaluation.change.get(name),
    )


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
        SliceRow(one.label, one.slice, _position(axis, value), _position(axis, baseline), _ends(axis, one, metric))
        for one, (value, baseline) in zip(shown, pairs, strict=True)
    ]
    return SliceTable(title, metric, overall, _position(axis, overall), low, high, rows, len(slices) - len(shown))


def _badness(value: float | None, metric: str) -> tuple[bool, float]:
    """A sort key that puts the worst slice first and slices without a value last."""
    if value is None:
        return True, 0.0
    if own_name(metric) == _BEST_AT_ONE:
        return False, -abs(value - 1)
    return False, -value if lower_is_better(metric) else value


def _position(axis: Scale, value: float | None) -> float | None:
    return axis(value) if value is not None and math.isfinite(value) else None


def _ends(axis: Scale, one: SliceValues, metric: str) -> tuple[float, float] | None:
    """The confidence interval on the axis, as far as it reaches."""
    ends = one.slice.intervals.get(metric)
    return None if ends is None else (axis(max(ends[0], axis.low)), axis(min(ends[1], axis.high)))


def _class_rows(confusion: Confusion, label: LabelConfig | None) -> list[ClassRow]:
    """The classes in the order of their numbers, by their names in the config."""
    columns = [sum(row[index] for row in confusion.counts) for index in range(len(confusion.classes))]
    rows = []
    for index, (number, counts) in enumerate(zip(confusion.classes, confusion.counts, strict=True)):
        weight, hit = sum(counts), counts[index]
        rows.append(
            ClassRow(
                name=_class_name(number, label),
                weight=weight,
                counts=counts,
                shares=tuple(count / weight if weight else 0.0 for count in counts),
                precision=hit / columns[index] if columns[index] else None,
                recall=hit / weight if weight else None,
                f1=2 * hit / (weight + columns[index]) if weight + columns[index] else None,
            )
        )
    return rows


def _label_rows(classes: Iterable[ClassMetrics], label: LabelConfig | None) -> list[LabelRow]:
    """The classes in which examples are told apart worst, and last those that have no AUC."""
    worst_first = sorted(classes, key=lambda one: (one.auc is None, one.auc or 0.0))
    return [LabelRow(_class_name(one.number, label), one) for one in worst_first[:_MOST_CLASSES]]


def _class_name(number: int, label: LabelConfig | None) -> str:
    values = label.class_values if label else ()
    return value_in_words(str(values[number])) if number < len(values) else str(number)


def _shown_decisions(curves: Curves) -> list[DecisionPoint]:
    """A few thresholds, from that which hardly any example reaches to that which nearly all do."""
    points, step = curves.decisions, max(len(curves.decisions) // _DECISIONS, 1)
    return list(points[step - 1 :: step])[:_DECISIONS]
