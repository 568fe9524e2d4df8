"""From accumulators to the metrics of each model and slice, and to what they would be without each fold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tensorflow_model_analysis.proto import config_pb2

from headrace.components.evaluation import plots, tfma
from headrace.components.evaluation.intervals import (
    change_intervals,
    difference,
    intervals,
    metrics_without,
)
from headrace.components.evaluation.limits import at_limits
from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.metrics.accumulator import LabelMetrics, MetricAccumulator
from headrace.components.evaluation.result import Intervals
from headrace.components.evaluation.slices import MetricValues, SliceKey

COUNT, WEIGHT = "example_count", "weighted_example_count"
"""TFMA's names for the number of examples, and for the sum of their weights."""

ModelSlice = tuple[str, SliceKey | None]
"""The model's name, and the slice. For the slice None, only the number of examples counts, which were left out."""
KeyedAccumulator = tuple[ModelSlice, MetricAccumulator]


class Measured(NamedTuple):
    """The metrics of each model and slice. without: the same without each fold, for intervals; empty if those of
    the slice are too few; limits: the intervals of metrics that are 1 or 0, which say nothing of the others; identical:
    the slices in which the candidate is the same as the baseline; plots: what those of the candidate are made of, by
    slice.
    """

    values: MetricValues
    without: dict[tuple[str, SliceKey], list[dict[str, float]]]
    limits: Mapping[tuple[str, SliceKey], Intervals] = MappingProxyType({})
    identical: frozenset[SliceKey] = frozenset()
    plots: Mapping[SliceKey, plots.Counts] = MappingProxyType({})

    def intervals(self, model: str, key: SliceKey) -> Intervals:
        found = intervals(only_metrics(self.values.get((model, key), {})), self.without.get((model, key), []))
        return {**self.limits.get((model, key), {}), **found}

    def change_intervals(self, model: str, baseline: str | None, key: SliceKey) -> Intervals:
        """Of the differences from the baseline in a slice. Metrics that are 1 or 0 in both models are as uncertain as
        their intervals, as if these were of other examples.
        """
        if baseline is None or (baseline, key) not in self.values or (model, key) not in self.values:
            return {}
        ours, theirs = (only_metrics(self.values[each, key]) for each in (model, baseline))
        without, baseline_without = self.without[model, key], self.without[baseline, key]
        identical = key in self.identical
        found = change_intervals(ours, theirs, without, baseline_without, identical=identical)
        if identical or len(without) != len(baseline_without):
            return found
        mine, its = self.limits.get((model, key), {}), self.limits.get((baseline, key), {})
        both = [name for name in mine if name in its]  # in one order in every process
        return {**{name: difference(ours[name], mine[name], theirs[name], its[name]) for name in both}, **found}


def measure(accumulators: Sequence[KeyedAccumulator], config: config_pb2.EvalConfig) -> Measured:
    """The metrics in the config, the example count, and the weight of weighted examples, of each model and slice: the
    candidate before the baseline, and slices in the config's order and then by value.
    """
    names = tfma.measured_names(config)
    label_metrics = metrics_of(tfma.label_kind(config), tfma.decision_threshold(config), names)
    of_slices = {(model, key): accumulator for (model, key), accumulator in accumulators if key is not None}
    found, limits = Measured({}, {}), dict[tuple[str, SliceKey], Intervals]()
    for each in _in_order(of_slices, config):
        totals = of_slices[each].total()
        metrics = label_metrics.metrics(totals)
        finite = {name: metrics[name] if math.isfinite(metrics[name]) else math.nan for name in names}
        weight = {WEIGHT: float(totals.sums[0])} if tfma.weight_column(config) else {}
        found.values[each] = {COUNT: totals.examples, **weight, **finite}
        found.without[each] = metrics_without(label_metrics, of_slices[each])
        if found.without[each]:
            limits[each] = at_limits(finite, label_metrics.proportions(totals))
    return found._replace(
        limits=limits,
        identical=_identical(of_slices, config),
        plots=dict(_plots(of_slices, label_metrics, tfma.model_names(config)[0])),
    )


def _plots(
    of_slices: Mapping[tuple[str, SliceKey], MetricAccumulator], metrics: LabelMetrics, candidate: str
) -> Iterator[tuple[SliceKey, plots.Counts]]:
    """What the plots of the candidate are made of."""
    ours = {key: accumulator for (model, key), accumulator in of_slices.items() if model == candidate}
    for key in plots.plotted({key: float(accumulator.examples.sum()) for key, accumulator in ours.items()}):
        if counts := plots.Counts.of(metrics, ours[key].total()):
            yield key, counts


def _identical(
    of_slices: Mapping[tuple[str, SliceKey], MetricAccumulator], config: config_pb2.EvalConfig
) -> frozenset[SliceKey]:
    """The slices in which the candidate's sums are those of the baseline."""
    candidate, baseline = tfma.model_names(config)
    if baseline is None:
        return frozenset()
    pairs = (
        (key, of_slices.get((baseline, key)), each) for (model, key), each in of_slices.items() if model == candidate
    )
    return frozenset(key for key, theirs, ours in pairs if theirs is not None and ours.equals(theirs))


def _in_order(keys: Iterable[tuple[str, SliceKey]], config: config_pb2.EvalConfig) -> list[tuple[str, SliceKey]]:
    columns = [sorted(spec.feature_keys) for spec in config.slicing_specs]
    models = tfma.model_names(config)

    def place(keyed: tuple[str, SliceKey]) -> tuple[Any, ...]:
        model, key = keyed
        values = [(value is None, value) for _, value in key]
        return models.index(model), columns.index([column for column, _ in key]), values

    return sorted(keys, key=place)


def only_metrics(values: Mapping[str, float]) -> dict[str, float]:
    """The metrics without the example count and weight."""
    return {name: value for name, value in values.items() if name not in {COUNT, WEIGHT}}
