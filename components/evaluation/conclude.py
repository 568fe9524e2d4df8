"""From tallies to metrics, and from those to the evaluation and its verdict."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
from tensorflow_model_analysis.proto import config_pb2

from headrace.components.evaluation import MEASURES, verdict
from headrace.components.evaluation.predict import Keyed
from headrace.components.evaluation.slices import SliceKey, in_words
from headrace.components.evaluation.tally import Tally
from headrace.components.evaluation_result import Evaluation, Metrics, SliceMetrics
from headrace.configs.evaluate import METRICS

KINDS = {name: kind for kind, metrics in METRICS.items() for name in metrics.values()}
"""The kind of label that each of TFMA's metric classes is for."""
COUNT = "example_count"

Values = dict[tuple[str, SliceKey], dict[str, float]]
"""Metrics and COUNT of each (model, slice); NaN where one has no value."""


def kind_of(config: config_pb2.EvalConfig) -> str:
    """The label's kind, by the metrics of the config."""
    return next(KINDS[metric.class_name] for metric in config.metrics_specs[0].metrics if metric.class_name in KINDS)


def model_names(config: config_pb2.EvalConfig) -> tuple[str, str | None]:
    """Names of the candidate and of the baseline; None without one."""
    names = {spec.is_baseline: spec.name for spec in config.model_specs}
    return names[False], names.get(True)


def values_of(tallies: Sequence[Keyed], config: config_pb2.EvalConfig) -> Values:
    """The metrics that the config names."""
    measure = MEASURES[kind_of(config)]
    names = [json.loads(metric.config)["name"] for metric in config.metrics_specs[0].metrics if metric.config]
    result: Values = {}
    for (model, key), tally in tallies:
        if key is not None:
            all_metrics = measure.metrics(tally)
            finite = {name: all_metrics[name] if math.isfinite(all_metrics[name]) else math.nan for name in names}
            result[model, key] = {COUNT: float(tally.sums[0]), **finite}
    return result


def conclude(
    tallies: Sequence[Keyed], values: Values, config: config_pb2.EvalConfig, split: str, closed: str = ""
) -> Evaluation:
    """The verdict over the whole split, with the slices in the config's order and then by value.

    closed: why the model cannot be blessed whatever its metrics are, if so.
    """
    candidate, baseline = model_names(config)
    whole = values.get((candidate, ()), {})
    metrics = {name: value for name, value in whole.items() if name != COUNT}
    against = values.get((baseline, ())) if baseline is not None else None
    checked = verdict.checks(_thresholds(config), metrics, against)
    reasons = verdict.reasons(checked, metrics) + [closed] * bool(closed)
    of_candidate: dict[SliceKey | None, Tally] = {key: tally for (model, key), tally in tallies if model == candidate}
    return Evaluation(
        split=split,
        example_count=int(whole.get(COUNT, 0)),
        unlabelled=int(of_candidate[None].sums[0]) if None in of_candidate else 0,
        metrics=_shown(metrics),
        baseline=None if against is None else _shown(against),
        slices=_slices(values, config),
        checks=tuple(checked),
        blessed=not reasons,
        reasons=tuple(reasons),
        curves=MEASURES[kind_of(config)].curves(of_candidate[()]) if () in of_candidate else None,
    )


def _thresholds(config: config_pb2.EvalConfig) -> dict[str, config_pb2.MetricThreshold]:
    return {
        json.loads(metric.config)["name"]: metric.per_slice_thresholds[0].threshold
        for metric in config.metrics_specs[0].metrics
        if metric.per_slice_thresholds
    }


def _slices(values: Values, config: config_pb2.EvalConfig) -> tuple[SliceMetrics, ...]:
    candidate, baseline = model_names(config)
    order = [sorted(spec.feature_keys) for spec in config.slicing_specs]
    keys = sorted(
        (key for model, key in values if model == candidate and key),
        key=lambda key: (order.index([column for column, _ in key]), [(value is None, value) for _, value in key]),
    )
    named = in_words(keys)
    return tuple(
        SliceMetrics(
            name=", ".join(itertools.starmap(_named, named[key])),
            metrics=_shown(values[candidate, key]),
            example_count=int(values[candidate, key][COUNT]),
            baseline=_shown(values[baseline, key]) if baseline is not None and (baseline, key) in values else None,
        )
        for key in keys
    )


def _named(column: str, value: str | float) -> str:
    """`hour = 5`; of a float so many digits that no other float32 is written alike."""
    if isinstance(value, float):
        short = f"{value:g}"
        return f"{column} = {short if np.float32(short) == np.float32(value) else np.float32(value)}"
    return f"{column} = {value}"


def _shown(metrics: Mapping[str, float]) -> Metrics:
    return {name: None if math.isnan(value) else value for name, value in metrics.items() if name != COUNT}
