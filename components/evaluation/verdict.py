"""From accumulators to metrics, and from metrics and thresholds to the verdict: blessed, or the reasons why not."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tensorflow_model_analysis.proto import config_pb2

from headrace.components.evaluation import tfma
from headrace.components.evaluation.metrics import LABEL_METRICS
from headrace.components.evaluation.metrics.accumulator import LabelMetrics, Margin, MetricAccumulator
from headrace.components.evaluation.result import Evaluation, Metrics, SliceMetrics, ThresholdCheck
from headrace.components.evaluation.slices import MetricValues, SliceKey, name_missing
from headrace.configs.schema.evaluate import LOSSES

COUNT = "example_count"
MAY_BE_UNDEFINED = frozenset({"calibration", "precision", "recall"})
"""Metrics that divide by a count that may rightly be zero. Without a threshold of their own they do not block."""

ModelSlice = tuple[str, SliceKey | None]
"""The model's name, and the slice. For the slice None, only the number of examples counts, which were left out."""
KeyedAccumulator = tuple[ModelSlice, MetricAccumulator]


class Requirements(NamedTuple):
    """What a blessing takes besides the thresholds. blocked: why no model can be blessed; "" if one can."""

    better_than_constant: bool
    blocked: str = ""


def metric_values(accumulators: Sequence[KeyedAccumulator], config: config_pb2.EvalConfig) -> MetricValues:
    """The metrics in the config, and the example count, of each model and slice: the candidate before the baseline, and
    slices in the config's order and then by value.
    """
    label_metrics = LABEL_METRICS[tfma.label_kind(config)]
    of_slices = {(model, key): accumulator for (model, key), accumulator in accumulators if key is not None}
    names = [json.loads(metric.config)["name"] for metric in config.metrics_specs[0].metrics if metric.config]
    result: MetricValues = {}
    for model, key in _in_order(of_slices, config):
        accumulator = of_slices[model, key]
        metrics = label_metrics.metrics(accumulator)
        finite = {name: metrics[name] if math.isfinite(metrics[name]) else math.nan for name in names}
        result[model, key] = {COUNT: accumulator.examples, **finite}
    return result


def _in_order(keys: Iterable[tuple[str, SliceKey]], config: config_pb2.EvalConfig) -> list[tuple[str, SliceKey]]:
    columns = [sorted(spec.feature_keys) for spec in config.slicing_specs]
    models = tfma.model_names(config)

    def place(keyed: tuple[str, SliceKey]) -> tuple[Any, ...]:
        model, key = keyed
        values = [(value is None, value) for _, value in key]
        return models.index(model), columns.index([column for column, _ in key]), values

    return sorted(keys, key=place)


def conclude(
    accumulators: Sequence[KeyedAccumulator],
    values: MetricValues,
    config: config_pb2.EvalConfig,
    split: str,
    requirements: Requirements,
) -> Evaluation:
    """The evaluation, with its verdict over the whole split, and slices in the order of `values`."""
    candidate, baseline = tfma.model_names(config)
    whole = values.get((candidate, ()), {})
    metrics = {name: value for name, value in whole.items() if name != COUNT}
    against = values.get((baseline, ())) if baseline is not None else None
    of_candidate: dict[SliceKey | None, MetricAccumulator] = {
        key: accumulator for (model, key), accumulator in accumulators if model == candidate
    }
    kind = tfma.label_kind(config)
    label_metrics, of_split = LABEL_METRICS[kind], of_candidate.get(())
    checked = check_thresholds(tfma.thresholds_of(config), metrics, against)
    if requirements.better_than_constant and of_split is not None:
        checked.append(compare_with_constant(label_metrics, of_split, LOSSES[kind]))
    reasons = rejection_reasons(checked, metrics) + [requirements.blocked] * bool(requirements.blocked)
    return Evaluation(
        split=split,
        example_count=int(whole.get(COUNT, 0)),
        unlabelled=int(of_candidate[None].examples) if None in of_candidate else 0,
        metrics=_without_nan(metrics),
        baseline=None if against is None else _without_nan(against),
        slices=_slices(values, candidate, baseline),
        checks=tuple(checked),
        blessed=not reasons,
        reasons=tuple(reasons),
        curves=None if of_split is None else label_metrics.curves(of_split),
        constant={} if of_split is None else _constant(label_metrics, of_split, metrics),
        remarks=() if of_split is None else few_examples(label_metrics.margin(of_split), split, int(whole[COUNT])),
        weight=tfma.weight_column(config),
    )


def _constant(label_metrics: LabelMetrics, accumulator: MetricAccumulator, metrics: Iterable[str]) -> Metrics:
    """What a constant prediction reaches, for the metrics of the config."""
    found = label_metrics.constant(accumulator)
    return {name: found[name] for name in metrics if name in found}


def compare_with_constant(label_metrics: LabelMetrics, accumulator: MetricAccumulator, loss: str) -> ThresholdCheck:
    """Whether the loss is below that of the best constant prediction. A loss without a value is not."""
    value, limit = label_metrics.metrics(accumulator)[loss], label_metrics.constant(accumulator)[loss]
    shown = value if math.isfinite(value) else None
    return ThresholdCheck(loss, "better_than_constant", limit, shown, None, value < limit)


def few_examples(margin: Margin | None, split: str, examples: int) -> tuple[str, ...]:
    """A remark if the examples are too few to measure the main metric."""
    if margin is None or margin.width < margin.too_wide:
        return ()
    interval = f"{margin.metric} is {margin.value:.2g} ± {margin.width:.1g} (95 % confidence interval)"
    return (f"the {split} split has only {examples:,} examples: {interval}; a larger share in `data.splits` helps",)


def check_thresholds(
    thresholds: Mapping[str, config_pb2.MetricThreshold],
    metrics: Mapping[str, float],
    baseline: Mapping[str, float] | None,
) -> list[ThresholdCheck]:
    """Every bound, met or not. A metric without a value meets none; without a baseline, nothing is compared with it."""
    return [
        check
        for name, threshold in thresholds.items()
        for check in _checks(name, threshold, metrics.get(name, math.nan), baseline)
    ]


def rejection_reasons(checked: list[ThresholdCheck], metrics: Mapping[str, float]) -> list[str]:
    """Why the model is not blessed; empty if it is."""
    if not metrics:
        return ["the evaluated split has no example with a label: nothing could be measured"]
    failed = [str(check) for check in checked if not check.passed]
    with_thresholds = {check.metric for check in checked}
    undefined = [
        f"{name} has no value: predictions are not numbers, or all labels are the same"
        for name, value in metrics.items()
        if math.isnan(value) and name not in MAY_BE_UNDEFINED | with_thresholds
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
    change = threshold.change_threshold
    if baselines is None or not change.HasField("absolute"):
        return
    baseline = baselines.get(name, math.nan)
    if math.isnan(baseline):
        yield ThresholdCheck(name, "not_worse_than_baseline_by", None, shown, None, not math.isnan(value))
        return
    lower_is_better = change.direction == config_pb2.LOWER_IS_BETTER
    difference = value - baseline
    passed = difference <= change.absolute.value if lower_is_better else difference >= change.absolute.value
    limit = baseline + change.absolute.value
    yield ThresholdCheck(name, "not_worse_than_baseline_by", limit, shown, baseline, passed)


def _slices(values: MetricValues, candidate: str, baseline: str | None) -> tuple[SliceMetrics, ...]:
    keys = [key for model, key in values if model == candidate and key]
    named = name_missing(keys)
    return tuple(
        SliceMetrics(
            name=", ".join(itertools.starmap(_pair_name, named[key])),
            metrics=_without_nan(values[candidate, key]),
            example_count=int(values[candidate, key][COUNT]),
            baseline=_without_nan(values[baseline, key])
            if baseline is not None and (baseline, key) in values
            else None,
        )
        for key in keys
    )


def _pair_name(column: str, value: str | float) -> str:
    """`hour = 5`. A float gets enough digits to differ from every other float32."""
    if isinstance(value, float):
        short = f"{value:g}"
        return f"{column} = {short if np.float32(short) == np.float32(value) else np.float32(value)}"
    return f"{column} = {value}"


def _without_nan(metrics: Mapping[str, float]) -> Metrics:
    """Metrics with None for NaN, and without the example count."""
    return {name: None if math.isnan(value) else value for name, value in metrics.items() if name != COUNT}
