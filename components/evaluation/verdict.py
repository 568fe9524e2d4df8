"""From metrics and thresholds to the verdict: blessed, or the reasons why not."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from tensorflow_model_analysis.proto import config_pb2

from headrace.common.figures import figure
from headrace.components.evaluation import tfma
from headrace.components.evaluation.measured import COUNT, KeyedAccumulator, Measured, only_metrics
from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.metrics.accumulator import LabelMetrics, Margin, Totals
from headrace.components.evaluation.result import Evaluation, Intervals, Metrics, SliceMetrics, ThresholdCheck
from headrace.components.evaluation.slice_checks import check_slices, pair_name
from headrace.components.evaluation.slices import name_missing
from headrace.configs.schema.evaluate import SliceThreshold
from headrace.configs.schema.metrics import AT_TARGET, DECISION_METRICS, LOSSES, base_of, task_metric

MAY_BE_UNDEFINED = frozenset({"calibration", *AT_TARGET}) | DECISION_METRICS["binary"] - {"binary_accuracy"}
"""Metrics that divide by a count that may rightly be zero. Without a threshold of their own they do not block."""
FEW_OF_CLASS = 10
"""Examples of the rarer class below which its metrics say little."""


class Requirements(NamedTuple):
    """What a blessing takes besides TFMA's thresholds. confident: the metrics whose bounds must hold for their
    intervals; slices: (metric, columns, what it must reach in each slice); blocked: why no model can be blessed; "" if
    one can; remarks: what limits the comparison's worth.
    """

    better_than_constant: bool
    confident: tuple[str, ...] = ()
    slices: tuple[tuple[str, tuple[str, ...], SliceThreshold], ...] = ()
    blocked: str = ""
    remarks: tuple[str, ...] = ()


def conclude(
    accumulators: Sequence[KeyedAccumulator],
    measured: Measured,
    config: config_pb2.EvalConfig,
    split: str,
    requirements: Requirements,
) -> Evaluation:
    """The evaluation, with its verdict over the whole split, and slices in the order of `measured`."""
    candidate, baseline = tfma.model_names(config)
    values = measured.values
    whole = values.get((candidate, ()), {})
    metrics = only_metrics(whole)
    against = values.get((baseline, ())) if baseline is not None else None
    totals = {key: accumulator.total() for (model, key), accumulator in accumulators if model == candidate}
    kind, threshold = tfma.label_kind(config), tfma.decision_threshold(config)
    label_metrics, of_split = metrics_of(kind, threshold, tfma.measured_names(config)), totals.get(())
    confidence = Confidence(
        requirements.confident,
        measured.intervals(candidate, ()),
        measured.change_intervals(candidate, baseline, ()),
    )
    checked = check_thresholds(tfma.thresholds_of(config), metrics, against, confidence)
    if of_split is not None:
        checked += check_slices(measured, candidate, requirements.slices, requirements.confident)
    if requirements.better_than_constant and of_split is not None:
        checked.append(compare_with_constant(label_metrics, of_split, LOSSES[kind]))
    few = () if of_split is None else size_remarks(label_metrics, of_split, LOSSES[kind], split)
    reasons = rejection_reasons(checked, _without_nan(metrics)) + [requirements.blocked] * bool(requirements.blocked)
    return Evaluation(
        split=split,
        example_count=int(whole.get(COUNT, 0)),
        unlabelled=int(totals[None].examples) if None in totals else 0,
        metrics=_without_nan(metrics),
        baseline=None if against is None else _without_nan(against),
        slices=_slices(measured, candidate, baseline),
        checks=tuple(checked),
        blessed=not reasons,
        reasons=tuple(reasons),
        curves=None if of_split is None else label_metrics.curves(of_split),
        constant={} if of_split is None else _constant(label_metrics, of_split, metrics),
        remarks=(*requirements.remarks, *few),
        weight=tfma.weight_column(config),
        intervals=confidence.intervals,
        change=confidence.change,
        confusion=None if of_split is None else label_metrics.confusion(of_split),
        classes=() if of_split is None else label_metrics.classes(of_split),
        decision_threshold=threshold if kind in DECISION_METRICS else None,
    )


def _constant(label_metrics: LabelMetrics, totals: Totals, metrics: Iterable[str]) -> Metrics:
    """What a constant prediction reaches, for the metrics of the config."""
    found = label_metrics.constant(totals)
    return {name: found[name] for name in metrics if name in found}


def compare_with_constant(label_metrics: LabelMetrics, totals: Totals, loss: str) -> ThresholdCheck:
    """Whether the loss is below that of the best constant prediction. A loss without a value is not."""
    value, limit = label_metrics.metrics(totals)[loss], label_metrics.constant(totals)[loss]
    shown = value if math.isfinite(value) else None
    return ThresholdCheck(loss, "better_than_constant", limit, shown, None, value < limit)


def size_remarks(label_metrics: LabelMetrics, totals: Totals, loss: str, split: str) -> tuple[str, ...]:
    """A remark if the split cannot tell a good model from a bad one: its labels are all the same, or too few."""
    if label_metrics.constant(totals)[loss] == 0:
        what = f"the label has the same value in all {totals.examples:,.0f} examples of the {split} split"
        return (f"{what}, so they say nothing about what the model has learned",)
    return few_examples(label_metrics.margin(totals), split, int(totals.examples))


def few_examples(margin: Margin | None, split: str, examples: int) -> tuple[str, ...]:
    """A remark if the examples are too few to measure the main metric."""
    if margin is None or (margin.width < margin.too_wide and margin.rarer >= FEW_OF_CLASS):
        return ()
    if margin.rarer < FEW_OF_CLASS:
        what, helps = (
            f"{margin.rarer:.0f} of {examples:,} examples in the rarer class",
            ", or `data.stratify`, helps",
        )
    else:
        what, helps = f"{examples:,} examples", " helps"
    interval = f"{margin.metric} is {figure(margin.value, 2)} ± {figure(margin.width, 1)} (95% confidence interval)"
    return (f"the {split} split has only {what}: {interval}; a larger share in `data.splits`{helps}",)


class Confidence(NamedTuple):
    """What bounds that must hold with confidence are checked against. metrics: those that have such bounds."""

    metrics: tuple[str, ...] = ()
    intervals: Intervals = {}
    change: Intervals = {}


def check_thresholds(
    thresholds: Mapping[str, config_pb2.MetricThreshold],
    metrics: Mapping[str, float],
    baseline: Mapping[str, float] | None,
    confidence: Confidence = Confidence(),  # noqa: B008 - immutable
) -> list[ThresholdCheck]:
    """Every bound, met or not. A metric without a value meets none; without a baseline, nothing is compared with it."""
    checks = [
        check
        for name, threshold in thresholds.items()
        for check in _checks(name, threshold, metrics.get(name, math.nan), baseline)
    ]
    return [_with_confidence(check, confidence) if check.metric in confidence.metrics else check for check in checks]


def _with_confidence(check: ThresholdCheck, confidence: Confidence) -> ThresholdCheck:
    """The same bound for the whole interval instead of the value."""
    if check.compares:
        change, before = confidence.change.get(check.metric), check.baseline or 0.0
        interval = (before + change[0], before + change[1]) if change else None
    else:
        interval = confidence.intervals.get(check.metric)
    if interval is None or check.limit is None:
        return replace(check, confident=True, passed=False)
    within = interval[1] <= check.limit if check.is_upper else interval[0] >= check.limit
    return replace(check, confident=True, interval=interval, passed=check.passed and within)


def rejection_reasons(checked: Sequence[ThresholdCheck], metrics: Metrics, task: str = "") -> list[str]:
    """Why the model is not blessed; empty if it is. task: whose checks and metrics these are, if there are several."""
    if not metrics:
        which = f"{task}: " if task else ""
        return [f"{which}the evaluated split has no example with a label: nothing could be measured"]
    failed = [str(replace(check, metric=task_metric(task, check.metric))) for check in checked if not check.passed]
    with_thresholds = {check.metric for check in checked if not check.slicing}
    undefined = [
        f"{task_metric(task, name)} has no value: predictions are not numbers, or all labels are the same"
        for name, value in metrics.items()
        if value is None and base_of(name) not in MAY_BE_UNDEFINED and name not in with_thresholds
    ]
    return failed + undefined


def _checks(
    name: str, threshold: config_pb2.MetricThreshold, value: float, baselines: Mapping[str, float] | None
) -> Iterator[ThresholdCheck]:
    shown = None if math.isnan(value) else value
    bounds = threshold.value_threshold
    if bounds.HasField("lower_bound"):
        least = bounds.lower_bound.value
        yield ThresholdCheck(name, "min", least, shown, None, value >= least)
    if bounds.HasField("upper_bound"):
        greatest = bounds.upper_bound.value
        yield ThresholdCheck(name, "max", greatest, shown, None, value <= greatest)
    if baselines is not None and threshold.HasField("change_threshold"):
        yield from _changes(name, threshold.change_threshold, value, baselines.get(name, math.nan))


def _changes(
    name: str, change: config_pb2.GenericChangeThreshold, value: float, baseline: float
) -> Iterator[ThresholdCheck]:
    """The bounds of the difference from the baseline. A relative one is held against the size of the baseline, which
    for a baseline above 0 is what TFMA does; TFMA turns the sign around below 0.
    """
    lower, shown = change.direction == config_pb2.LOWER_IS_BETTER, None if math.isnan(value) else value
    bounds: tuple[tuple[Literal["not_worse_than_baseline_by", "relative_change"], bool, float, float], ...] = (
        ("not_worse_than_baseline_by", change.HasField("absolute"), change.absolute.value, 1.0),
        ("relative_change", change.HasField("relative"), change.relative.value, abs(baseline)),
    )
    for bound, is_set, limit, unit in bounds:
        if not is_set:
            continue
        unknown = math.isnan(baseline)
        if unknown or math.isclose(unit, 0.0):
            passed = unknown and not math.isnan(value)
            yield ThresholdCheck(name, bound, None, shown, None if unknown else baseline, passed, lower_is_better=lower)
            continue
        by = (value - baseline) / unit
        passed = by <= limit if lower else by >= limit
        yield ThresholdCheck(name, bound, baseline + limit * unit, shown, baseline, passed, lower_is_better=lower)


def _slices(measured: Measured, candidate: str, baseline: str | None) -> tuple[SliceMetrics, ...]:
    values = measured.values
    keys = [key for model, key in values if model == candidate and key]
    named = name_missing(keys)
    return tuple(
        SliceMetrics(
            name=", ".join(itertools.starmap(pair_name, named[key])),
            metrics=_without_nan(values[candidate, key]),
            example_count=int(values[candidate, key][COUNT]),
            baseline=_without_nan(values[baseline, key])
            if baseline is not None and (baseline, key) in values
            else None,
            intervals=measured.intervals(candidate, key),
            change=measured.change_intervals(candidate, baseline, key),
        )
        for key in keys
    )


def _without_nan(metrics: Mapping[str, float]) -> Metrics:
    """Metrics with None for NaN, and without the example count."""
    return {name: None if math.isnan(value) else value for name, value in only_metrics(metrics).items()}
