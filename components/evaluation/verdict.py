"""From metrics and thresholds to a verdict: blessed, or the reasons why not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tensorflow_model_analysis.proto import config_pb2

from headrace.components.evaluation_result import Check

MAY_BE_UNDEFINED = frozenset({"calibration", "precision", "recall"})
"""Metrics that divide by a count that may rightly be zero. Without a threshold of their own they do not block."""


def checks(
    thresholds: Mapping[str, config_pb2.MetricThreshold],
    metrics: Mapping[str, float],
    baseline: Mapping[str, float] | None,
) -> list[Check]:
    """Every bound, met or not. A metric without a value meets none; without a baseline, none is compared with it."""
    return [
        check
        for name, threshold in thresholds.items()
        for check in _checks(name, threshold, metrics.get(name, math.nan), baseline)
    ]


def reasons(checked: list[Check], metrics: Mapping[str, float]) -> list[str]:
    """Why there is no blessing; empty where there is one."""
    if not metrics:
        return ["the evaluated split has no example with a label: nothing could be measured"]
    failed = [str(check) for check in checked if not check.passed]
    with_thresholds = {check.metric for check in checked}
    undefined = [
        f"{name} has no value: predictions that are no numbers, or labels that are all the same"
        for name, value in metrics.items()
        if math.isnan(value) and name not in MAY_BE_UNDEFINED | with_thresholds
    ]
    return failed + undefined


def _checks(
    name: str, threshold: config_pb2.MetricThreshold, value: float, baselines: Mapping[str, float] | None
) -> Iterator[Check]:
    shown = None if math.isnan(value) else value
    bounds = threshold.value_threshold
    if bounds.HasField("lower_bound"):
        least = bounds.lower_bound.value
        yield Check(name, "min", least, shown, None, value >= least)
    if bounds.HasField("upper_bound"):
        greatest = bounds.upper_bound.value
        yield Check(name, "max", greatest, shown, None, value <= greatest)
    change = threshold.change_threshold
    if baselines is None or not change.HasField("absolute"):
        return
    baseline = baselines.get(name, math.nan)
    if math.isnan(baseline):
        yield Check(name, "not_worse_than_baseline_by", None, shown, None, not math.isnan(value))
        return
    lower_is_better = change.direction == config_pb2.LOWER_IS_BETTER
    difference = value - baseline
    passed = difference <= change.absolute.value if lower_is_better else difference >= change.absolute.value
    yield Check(name, "not_worse_than_baseline_by", baseline + change.absolute.value, shown, baseline, passed)
