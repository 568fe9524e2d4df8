"""The evaluation as the page shows it: metrics beside limit and baseline, slices with the worst first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from configs.config import PipelineConfig
from configs.evaluate import LOWER_IS_BETTER, METRICS
from pipeline.report.charts import Line, line_chart
from pipeline.report.charts.scale import Scale, padded
from pipeline.report.evaluation import Evaluation, Plots, SliceMetrics
from pipeline.report.verdict import Check, Verdict

_FROM_0_TO_1 = frozenset({"auc", "auc_precision_recall", "binary_accuracy", "precision", "recall", "accuracy"})
_MOST_SLICES = 40
_FEW_EXAMPLES = 30


@dataclass(frozen=True)
class MetricRow:
    """One metric over the whole evaluated split. `better`: than the baseline; None where there is none or no change."""

    name: str
    value: float | None
    baseline: float | None
    checks: list[Check]
    in_unit_range: bool

    @property
    def change(self) -> float | None:
        """Against the baseline."""
        return None if self.value is None or self.baseline is None else self.value - self.baseline

    @property
    def better(self) -> bool | None:
        """Whether the change is one for the better; None where there is none."""
        return (self.change < 0) is (self.name in LOWER_IS_BETTER) if self.change else None


@dataclass(frozen=True)
class SliceRow:
    """One slice; `at` and `baseline_at` are places on the slicing's axis, in percent."""

    label: str
    slice: SliceMetrics
    at: float | None
    baseline_at: float | None

    @property
    def few(self) -> bool:
        """Whether its figures are mostly chance."""
        return self.slice.examples is not None and self.slice.examples < _FEW_EXAMPLES


@dataclass(frozen=True)
class Slicing:
    """All slices over the same columns, the worst by `metric` first; `left_out` more are better than those."""

    title: str
    metric: str
    overall: float
    overall_at: float
    rows: list[SliceRow]
    left_out: int


@dataclass(frozen=True)
class Judgement:
    """The whole section. `pictures` are (heading, chart)."""

    split: str
    examples: int | None
    metrics: list[MetricRow]
    slicings: list[Slicing]
    pictures: list[tuple[str, Markup]]
    has_baseline: bool

    @property
    def names(self) -> list[str]:
        """Of the metrics, the one that matters most first."""
        return [metric.name for metric in self.metrics]


def read_judgement(evaluation: Evaluation, verdict: Verdict, config: PipelineConfig | None) -> Judgement:
    """The section of an evaluation."""
    overall = evaluation.overall
    names = _order(overall.metrics, config)
    return Judgement(
        split=config.evaluated_split if config else "",
        examples=overall.examples,
        metrics=[_metric_row(name, overall, verdict) for name in names],
        slicings=_slicings(evaluation, names[0]) if names else [],
        pictures=_pictures(evaluation.plots),
        has_baseline=bool(overall.baseline),
    )


def _order(metrics: Sequence[str] | dict[str, float], config: PipelineConfig | None) -> list[str]:
    """Metrics with a threshold first, then as the config lists them, then the rest."""
    wanted: list[str] = []
    if config is not None:
        wanted = [*config.evaluate.thresholds, *(config.evaluate.metrics or METRICS[config.label.kind])]
    return list(dict.fromkeys([*(name for name in wanted if name in metrics), *metrics]))


def _metric_row(name: str, overall: SliceMetrics, verdict: Verdict) -> MetricRow:
    checks = [check for check in verdict.checks if check.metric == name]
    return MetricRow(name, overall.metrics.get(name), overall.baseline.get(name), checks, name in _FROM_0_TO_1)


def _slicings(evaluation: Evaluation, metric: str) -> list[Slicing]:
    groups: dict[tuple[str, ...], list[SliceMetrics]] = {}
    for found in evaluation.slices:
        groups.setdefault(tuple(column for column, _ in found.columns), []).append(found)
    return [
        slicing
        for columns, slices in groups.items()
        if (slicing := _slicing(" × ".join(columns), metric, evaluation.overall, slices))  # noqa: RUF001
    ]


def _slicing(title: str, metric: str, overall: SliceMetrics, slices: list[SliceMetrics]) -> Slicing | None:
    whole = overall.metrics.get(metric, math.nan)
    worst_first = sorted(slices, key=lambda found: _badness(found.metrics.get(metric, math.nan), metric))
    shown = worst_first[:_MOST_SLICES]
    values = [known.get(metric, math.nan) for found in shown for known in (found.metrics, found.baseline)]
    axis = Scale(*padded([whole, *values], share=0.04), 0.0, 100.0)
    rows = [
        SliceRow(
            ", ".join(value for _, value in found.columns) or "(missing)",
            found,
            _place(axis, found.metrics.get(metric)),
            _place(axis, found.baseline.get(metric)),
        )
        for found in shown
    ]
    at = _place(axis, whole)
    return Slicing(title, metric, whole, 0.0 if at is None else at, rows, len(slices) - len(shown))


def _badness(value: float, metric: str) -> tuple[bool, float]:
    undefined = not math.isfinite(value)
    return undefined, 0.0 if undefined else (-value if metric in LOWER_IS_BETTER else value)


def _place(axis: Scale, value: float | None) -> float | None:
    return axis(value) if value is not None and math.isfinite(value) else None


def _pictures(plots: Plots) -> list[tuple[str, Markup]]:
    pictures = []
    if plots.roc:
        lines = [Line("chance", [(0, 0), (1, 1)], "quiet", dots=False)]
        if plots.baseline_roc:
            lines.append(Line("baseline", plots.baseline_roc, "second", dots=False))
        lines.append(Line("model", plots.roc, "first", dots=False))
        chart = line_chart(
            "ROC curve: true positive rate over false positive rate",
            lines,
            x_label="false positive rate",
            x_range=(0, 1),
            y_range=(0, 1),
        )
        pictures.append(("ROC: true positives over false positives", chart))
    if plots.calibration:
        lines = [
            Line("perfect", [(0, 0), (1, 1)], "quiet", dots=False),
            Line("model", [(predicted, share) for predicted, share, _ in plots.calibration]),
        ]
        chart = line_chart(
            "Calibration: share of positives over mean prediction",
            lines,
            x_label="mean prediction",
            x_range=(0, 1),
            y_range=(0, 1),
        )
        pictures.append(("Calibration: share of positives over prediction", chart))
    return pictures
