"""Metrics by kind of label."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow_model_analysis.metrics import metric_types

from headrace.components.evaluation.metrics.accumulator import LabelMetrics
from headrace.components.evaluation.metrics.binary import BinaryMetrics
from headrace.components.evaluation.metrics.multiclass import MulticlassMetrics, NextWordMetrics
from headrace.components.evaluation.metrics.multilabel import MultilabelMetrics
from headrace.components.evaluation.metrics.regression import RegressionMetrics
from headrace.components.evaluation.metrics.texts import TextMetrics
from headrace.configs.schema.metrics import ONE_VS_REST, OURS, split_level, top_k

LABEL_METRICS: dict[str, LabelMetrics] = {
    "binary": BinaryMetrics(),
    "multiclass": MulticlassMetrics(),
    "multilabel": MultilabelMetrics(),
    "next_word": NextWordMetrics(),
    "regression": RegressionMetrics(),
    "text": TextMetrics(),
}
"""The metrics of each kind of label."""


def metrics_of(kind: str, decision_threshold: float, names: Iterable[str] = ()) -> LabelMetrics:
    """The metrics of a kind of label, of which those of yes-or-no decisions depend on a threshold.

    names: of metrics, among them those with a level, those of ONE_VS_REST and those such as `top_3_accuracy`, which are
    computed only if named.
    """
    requested = {*names}
    levels = tuple(sorted({name for name in requested if split_level(name)[1] is not None}))
    if kind == "multiclass":
        tops = sorted({k for k in map(top_k, requested) if k is not None})
        return MulticlassMetrics(one_vs_rest=not ONE_VS_REST.isdisjoint(requested), tops=tuple(tops))
    if kind == "multilabel":
        return MultilabelMetrics(decision_threshold, levels)
    return BinaryMetrics(decision_threshold, levels) if kind == "binary" else LABEL_METRICS[kind]


def _register_with_tfma(name: str) -> None:
    """Register a metric class that TFMA's validation looks up by its name in an EvalConfig. It computes nothing."""

    def initialize(self: metric_types.Metric, name: str, **_: object) -> None:
        metric_types.Metric.__init__(self, lambda **_: [], name=name)

    metric_types.register_metric(type(name, (metric_types.Metric,), {"__init__": initialize}))


for _name in OURS:
    _register_with_tfma(_name)
