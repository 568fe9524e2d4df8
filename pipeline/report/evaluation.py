"""The evaluation section: metrics next to limits and baseline, and slices with the worst first."""

from __future__ import annotations

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
)
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.metrics import NEITHER_IS_BETTER, base_of, is_fraction, lower_is_better, own_name
from headrace.pipeline.report.charts import Picture
from headrace.pipeline.report.curves import curve_pictures
from headrace.pipeline.report.explanation import (
    ExplanationSection,
    WorstTable,
    explanation_section,
    worst_table,
)
from headrace.pipeline.report.formatting import figure, value_in_words
from headrace.pipeline.report.slices import BEST_AT_ONE, SliceTable, slice_tables
from headrace.pipeline.results.verdict import Bound, ModelVerdict

_MOST_CLASSES = 50
_DECISIONS = 9
"""Thresholds in the table of decisions."""
_MOST_DIGITS = 9
"""Digits of a float32, in which predictions are computed."""


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
        if own_name(self.name) == BEST_AT_ONE:
            distances = [abs(self.baseline + one - 1) for one in self.change_interval or (self.change,)]
            nearer = {distance < abs(self.baseline - 1) for distance in distances}
            return nearer.pop() if len(nearer) == 1 else None
        return (self.change < 0) is lower_is_better(self.name)


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
        slicings=slice_tables(evaluation, names[0], config) if names else [],
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
