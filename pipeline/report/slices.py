"""The metrics of slices, the worst first, by the columns that they are taken over."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from headrace.components.evaluation.result import (
    Evaluation,
    SliceMetrics,
)
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.metrics import lower_is_better, own_name
from headrace.pipeline.report.charts import Scale, padded
from headrace.pipeline.report.formatting import value_in_words

BEST_AT_ONE = "calibration"
_TIMES = " \N{MULTIPLICATION SIGN} "
_MOST_SLICES = 40
FEW_EXAMPLES = 30
"""The metrics of a slice with fewer examples are mostly noise."""


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


def slice_tables(evaluation: Evaluation, metric: str, config: PipelineConfig | None) -> list[SliceTable]:
    """A table for the slices over the same columns, sorted by this metric."""
    overall = evaluation.metrics.get(metric)
    return [_table(title, metric, overall, slices) for title, slices in group_slices(evaluation, config).items()]


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


def _table(title: str, metric: str, overall: float | None, slices: list[SliceValues]) -> SliceTable:
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
    if own_name(metric) == BEST_AT_ONE:
        return False, -abs(value - 1)
    return False, -value if lower_is_better(metric) else value


def _position(axis: Scale, value: float | None) -> float | None:
    return axis(value) if value is not None and math.isfinite(value) else None


def _ends(axis: Scale, one: SliceValues, metric: str) -> tuple[float, float] | None:
    """The confidence interval on the axis, as far as it reaches."""
    ends = one.slice.intervals.get(metric)
    return None if ends is None else (axis(max(ends[0], axis.low)), axis(min(ends[1], axis.high)))
