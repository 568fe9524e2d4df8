"""Confidence intervals of metrics, by the jackknife over folds of the examples, as in TFMA's JackknifeConfig.

intervals({"auc": 0.81}, [{"auc": 0.80}, {"auc": 0.82}, ...])       # {"auc": (0.78, 0.84)}

The metrics are computed again without each of the folds. How far these values are apart tells the standard error (Efron
and Tibshirani, "An Introduction to the Bootstrap", chapter 11, 1993), for any smooth metric, overall and in each slice.
That of the difference between two models over the same examples is mostly much smaller than the errors of both.

An interval of as much to either side would be wrong near the end of what a metric can be: of an accuracy of 0.98 it
would end too near 0.98 below. So it is taken on a scale without ends, the log-odds for a share and the logarithm for an
error (Pepe, "The statistical evaluation of medical tests for classification and prediction", chapter 5, 2003).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.metrics.accumulator import FOLDS, LabelMetrics, MetricAccumulator
from headrace.components.evaluation.result import Interval, Intervals
from headrace.configs.schema.metrics import FRACTION_METRICS, LOWER_IS_BETTER, base_of, is_fraction

Values = Mapping[str, float]
LEAST_EXAMPLES = 2 * FOLDS
"""Examples below which a metric has no interval."""
_QUANTILES = (2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093)
"""97.5% of Student's t distribution lie below these, for 9 to 19 degrees of freedom."""
_LEAST_FOLDS = FOLDS + 1 - len(_QUANTILES)
_POSITIVE = (LOWER_IS_BETTER | {"calibration"}) - FRACTION_METRICS
"""Metrics from 0 up."""
_ROUNDING = 1e-9
"""A share that is nearer to 0 or 1 is there, as in limits.py."""
_WIDEST = 40.0
"""The most that an interval extends to either side on a scale without ends, so that its ends are numbers."""


def metrics_without(label_metrics: LabelMetrics, accumulator: MetricAccumulator) -> list[dict[str, float]]:
    """The metrics without each of the folds that have examples; none if the examples are too few for intervals."""
    folds = accumulator.folds
    if accumulator.examples.sum() < LEAST_EXAMPLES or len(folds) < _LEAST_FOLDS:
        return []
    return [label_metrics.metrics(accumulator.total(without=fold)) for fold in folds]


def intervals(values: Values, without: Sequence[Values]) -> Intervals:
    """The intervals of metrics. without: the metrics without each fold.

    A metric that is the same without any of them has none: that tells nothing of its error. See limits.py for those
    that are 1 or 0.
    """
    found = {name: _width(value, [each[name] for each in without]) for name, value in values.items()}
    return {
        name: _around(name, values[name], width)
        for name, width in found.items()
        if width is not None and width > abs(values[name]) * 1e-12
    }


def change_intervals(
    values: Values,
    baseline: Values,
    without: Sequence[Values],
    baseline_without: Sequence[Values],
    *,
    identical: bool = False,
) -> Intervals:
    """The intervals of the differences between a model and the baseline, over the same folds.

    A difference that is the same without any of them has none, unless the models are identical on these examples.
    """
    if len(without) != len(baseline_without):  # one of them cannot be evaluated on some examples
        return {}
    found = {
        name: _width(
            values[name] - baseline[name],
            [ours[name] - theirs[name] for ours, theirs in zip(without, baseline_without, strict=True)],
        )
        for name in values
        if name in baseline
    }
    return {
        name: (values[name] - baseline[name] - width, values[name] - baseline[name] + width)
        for name, width in found.items()
        if width is not None and (identical or width > max(abs(values[name]), abs(baseline[name])) * 1e-12)
    }


def difference(high: float, high_interval: Interval, low: float, low_interval: Interval) -> Interval:
    """The interval of the difference of two metrics that are computed of different examples, from the intervals of both
    (Zou and Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27, 2008).
    """
    (high_from, high_to), (low_from, low_to) = high_interval, low_interval
    by = high - low
    return by - math.hypot(high - high_from, low_to - low), by + math.hypot(high_to - high, low - low_from)


def _width(value: float, without: Sequence[float]) -> float | None:
    """How far an interval extends to either side; None if a value is not finite."""
    number = len(without)
    if number < _LEAST_FOLDS or not math.isfinite(value) or not np.isfinite(without).all():
        return None
    return _QUANTILES[number - _LEAST_FOLDS] * standard_error(without)


def standard_error(without: Sequence[float]) -> float:
    """The standard error of a metric. without: its values without each fold."""
    return math.sqrt((len(without) - 1) * float(np.var(without)))


def _around(name: str, value: float, width: float) -> Interval:
    """The interval of a metric. On the scale without ends, `width` is divided by the slope of the metric's values there
    (the delta method). A value at an end has no place on the scale, so its interval ends at what the metric can be.
    """
    base = base_of(name)
    if is_fraction(name):
        if not _ROUNDING < value < 1 - _ROUNDING:
            return max(value - width, 0.0), min(value + width, 1.0)
        to_side = min(width / (value * (1 - value)), _WIDEST)
        low, high = (value * math.exp(by) for by in (-to_side, to_side))
        return low / (low + 1 - value), high / (high + 1 - value)
    if base == "matthews_correlation":  # between -1 and 1, so a share on another scale
        low, high = _around("recall", (1 + value) / 2, width / 2)
        return 2 * low - 1, 2 * high - 1
    if base == "r_squared":  # 1 less the error that is left, as a share of the labels' variance
        low, high = _from_zero(1 - value, width)
        return 1 - high, 1 - low
    return _from_zero(value, width) if base in _POSITIVE else (value - width, value + width)


def _from_zero(value: float, width: float) -> Interval:
    """The interval of something that is 0 or more."""
    if value <= 0:
        return 0.0, value + width
    to_side = min(width / value, _WIDEST)
    return value * math.exp(-to_side), value * math.exp(to_side)


def folds_of(start: int, number: int, key: int) -> NDArray[np.int64]:
    """The folds of `number` examples from position `start` of a file, int64 [number].

    They depend on the position and the file alone, so they are the same in each run and for both models. key: differs
    from file to file.
    """
    return (mixed_positions(start, number, key) % np.uint64(FOLDS)).astype(np.int64)


def mixed_positions(start: int, number: int, key: int) -> NDArray[np.uint64]:
    """A number for each of these examples as if it were drawn at random, uint64 [number].

    Positions are mixed (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), because
    rows may come in an order that repeats.
    """
    with np.errstate(over="ignore"):
        mixed = np.arange(start, start + number, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
