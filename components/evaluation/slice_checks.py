"""The thresholds on slices: every bound, held against the slices that are worst."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from headrace.components.evaluation.intervals import difference
from headrace.components.evaluation.measured import COUNT, Measured
from headrace.components.evaluation.result import Interval, ThresholdCheck
from headrace.components.evaluation.slices import name_missing
from headrace.configs.schema.evaluate import SliceThreshold

Bound = Literal["min", "max", "max_gap"]


class JudgedSlice(NamedTuple):
    """A slice with enough examples, and its value of the metric; interval: None if it has none."""

    value: float
    name: str
    interval: Interval | None = None


def check_slices(
    measured: Measured,
    candidate: str,
    thresholds: Sequence[tuple[str, tuple[str, ...], SliceThreshold]],
    confident: Collection[str] = (),
) -> list[ThresholdCheck]:
    """Every bound on slices, met or not.

    Args:
        measured: the metrics of all slices.
        candidate: the name of the model.
        thresholds: the metric, the columns of the slices, and what it must reach in each of them.
        confident: the metrics whose bounds must hold for their whole intervals.
    """
    values = {key: metrics for (model, key), metrics in measured.values.items() if model == candidate}
    names = {key: ", ".join(itertools.starmap(pair_name, pairs)) for key, pairs in name_missing(values).items()}
    checks: list[ThresholdCheck] = []
    for metric, columns, threshold in thresholds:
        large = [
            JudgedSlice(
                metrics[metric],
                names[key],
                measured.intervals(candidate, key).get(metric) if metric in confident else None,
            )
            for key, metrics in values.items()
            if [column for column, _ in key] == sorted(columns) and metrics[COUNT] >= threshold.min_examples
        ]
        judged = sorted((one for one in large if not math.isnan(one.value)), key=lambda one: one[:2])
        undefined = sorted(one.name for one in large if math.isnan(one.value))
        checks += _checks(metric, ", ".join(columns), threshold, judged, undefined, sure=metric in confident)
    return checks


def _checks(
    metric: str,
    slicing: str,
    threshold: SliceThreshold,
    judged: Sequence[JudgedSlice],
    undefined: Sequence[str],
    *,
    sure: bool,
) -> Iterator[ThresholdCheck]:
    """judged: from the lowest value up; undefined: the slices without a value, which no bound can be promised for;
    sure: whether bounds must hold for whole intervals.
    """
    bounds: tuple[tuple[Bound, float | None], ...] = (
        ("min", threshold.min),
        ("max", threshold.max),
        ("max_gap", threshold.max_gap),
    )
    for bound, limit in bounds:
        if limit is None:
            continue
        if undefined or len(judged) < (2 if bound == "max_gap" else 1):
            name = undefined[0] if undefined else ""
            yield ThresholdCheck(metric, bound, None, None, None, passed=False, slicing=slicing, slice=name)
            continue
        value, name, interval = (_worst_interval if sure else _worst)(bound, judged)
        if sure:
            passed = interval is not None and (interval[0] >= limit if bound == "min" else interval[1] <= limit)
        else:
            passed = value >= limit if bound == "min" else value <= limit
        yield ThresholdCheck(metric, bound, limit, value, None, passed, sure, interval, slicing, name)


def _worst(bound: Bound, judged: Sequence[JudgedSlice]) -> JudgedSlice:
    """The slice with the lowest or the highest value, or the two that are farthest apart."""
    lowest, highest = judged[0], judged[-1]
    if bound == "max_gap":
        return JudgedSlice(highest.value - lowest.value, f"{lowest.name} and {highest.name}")
    return lowest if bound == "min" else highest


def _worst_interval(bound: Bound, judged: Sequence[JudgedSlice]) -> JudgedSlice:
    """The slice whose interval ends lowest or highest, or the two that may be farthest apart; first of all, one without
    an interval.
    """
    intervals = [one.interval for one in judged if one.interval is not None]
    if len(intervals) < len(judged):
        return next(one for one in judged if one.interval is None)
    low, high = np.array(intervals).T
    if bound != "max_gap":
        return judged[int(np.argmin(low) if bound == "min" else np.argmax(high))]
    values = np.array([one.value for one in judged])
    farthest = (-math.inf, 0, 0)
    for place, value in enumerate(values):
        most = value - values + np.hypot(high[place] - value, values - low)
        most[place] = -math.inf
        other = int(np.argmax(most))
        farthest = max(farthest, (float(most[other]), place, other))
    _, one, other = farthest
    first, second = judged[min(one, other)], judged[max(one, other)]
    gap = difference(judged[one].value, intervals[one], judged[other].value, intervals[other])
    return JudgedSlice(second.value - first.value, f"{first.name} and {second.name}", gap)


def pair_name(column: str, value: str | float) -> str:
    """`hour = 5`. A float gets enough digits to differ from every other float32."""
    if isinstance(value, float):
        short = f"{value:g}"
        return f"{column} = {short if np.float32(short) == np.float32(value) else np.float32(value)}"
    return f"{column} = {value}"
