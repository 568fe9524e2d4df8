"""Metrics by kind of label."""

from __future__ import annotations

from headrace.components.evaluation.metrics.accumulator import LabelMetrics
from headrace.components.evaluation.metrics.classification import BinaryMetrics, MulticlassMetrics, NextWordMetrics
from headrace.components.evaluation.metrics.multilabel import MultilabelMetrics
from headrace.components.evaluation.metrics.regression import RegressionMetrics
from headrace.components.evaluation.metrics.texts import TextMetrics

LABEL_METRICS: dict[str, LabelMetrics] = {
    "binary": BinaryMetrics(),
    "multiclass": MulticlassMetrics(),
    "multilabel": MultilabelMetrics(),
    "next_word": NextWordMetrics(),
    "regression": RegressionMetrics(),
    "text": TextMetrics(),
}
"""The metrics of each kind of label."""


def metrics_of(kind: str, decision_threshold: float) -> LabelMetrics:
    """The metrics of a kind of label, of which those of yes-or-no decisions depend on a threshold."""
    if kind == "multilabel":
        return MultilabelMetrics(decision_threshold)
    return BinaryMetrics(decision_threshold) if kind == "binary" else LABEL_METRICS[kind]
