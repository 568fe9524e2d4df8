"""Metrics for classes: binary, multiclass, and the next word of a text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tensorflow_model_analysis.metrics import metric_types

from headrace.components.evaluation.metrics.accumulator import (
    STANDARD_ERRORS,
    Array,
    LabelMetrics,
    Margin,
    MetricAccumulator,
)
from headrace.components.evaluation.result import Curves
from headrace.configs.schema.evaluate import METRICS

EPSILON = 1e-7
"""Probabilities are clipped to [EPSILON, 1 - EPSILON] inside logarithms, as in Keras and TFMA."""
RESOLUTION = 16384
"""Histogram buckets for each unit of log-odds. A bucket is 0.000015 wide at a probability of 0.5. Near 0 and 1, where
probabilities lie when classes are rare, it is as fine relative to the probability."""
ROC_POINTS = 200
CALIBRATION_BINS = 10
TOP = 5
TOO_WIDE = 0.05
"""Width of the confidence interval of an AUC or accuracy, either way, from which the examples are too few."""
UNKNOWN_WORD = -1
"""The bucket of all words outside the vocabulary."""


class BinaryMetrics(LabelMetrics):
    """Metrics for two classes, from the probability of the second, [n, 1].

    Accuracy, precision and recall count a prediction above 0.5 as positive, exactly. The areas under the curves are
    sums over a fine histogram.
    """

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return (labels == 0) | (labels == 1)

    def sums(self, labels: Array, predictions: Array) -> Array:
        p = predictions[:, 0]
        clipped = np.clip(p, EPSILON, 1 - EPSILON)
        loss = -np.where(labels == 1, np.log(clipped), np.log1p(-clipped))
        above = p > 0.5
        return np.stack([np.ones_like(p), labels, p, loss, above, above * labels], axis=1)

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:  # noqa: ARG002
        p = np.clip(np.nan_to_num(predictions[:, 0]), 1e-15, 1 - 1e-15)
        return np.floor(RESOLUTION * (np.log(p) - np.log1p(-p))).astype(np.int64)

    def metrics(self, accumulator: MetricAccumulator) -> dict[str, float]:
        examples, positives, probability, loss, above, true_positives = accumulator.sums
        if not np.isfinite(probability):
            return dict.fromkeys(METRICS["binary"], np.nan)
        correct = true_positives + (examples - positives) - (above - true_positives)
        area, area_precision_recall = _areas(accumulator.counts)
        return {
            "auc": area,
            "auc_precision_recall": area_precision_recall,
            "binary_accuracy": _ratio(correct, examples),
            "binary_crossentropy": _ratio(loss, examples),
            "calibration": _ratio(probability, positives),
            "precision": _ratio(true_positives, above),
            "recall": _ratio(true_positives, positives),
        }

    def constant(self, accumulator: MetricAccumulator) -> dict[str, float]:
        examples, positives = accumulator.sums[:2]
        share = positives / examples
        return {
            "auc": 0.5,
            "auc_precision_recall": float(share),
            "binary_accuracy": float(max(share, 1 - share)),
            "binary_crossentropy": _entropy(np.array([positives, examples - positives])),
        }

    def margin(self, accumulator: MetricAccumulator) -> Margin | None:
        """Of the AUC (Hanley and McNeil, "The meaning and use of the area under a ROC curve", Radiology 143, 1982)."""
        examples = accumulator.effective_examples
        positives = accumulator.sums[1] * examples / accumulator.sums[0]
        area = self.metrics(accumulator)["auc"]
        negatives = examples - positives
        if not np.isfinite(area):
            return None
        two_positives, two_negatives = area / (2 - area), 2 * area**2 / (1 + area)
        variance = area * (1 - area)
        variance += (positives - 1) * (two_positives - area**2) + (negatives - 1) * (two_negatives - area**2)
        width = STANDARD_ERRORS * float(np.sqrt(max(variance, 0) / (positives * negatives)))
        return Margin("auc", area, width, TOO_WIDE)

    def curves(self, accumulator: MetricAccumulator) -> Curves | None:
        negatives, positives = accumulator.counts[::-1].T
        if not (negatives.sum() and positives.sum() and np.isfinite(accumulator.sums).all()):
            return None
        false_rate = np.concatenate([[0], np.cumsum(negatives) / negatives.sum()])
        true_rate = np.concatenate([[0], np.cumsum(positives) / positives.sum()])
        # points at equal distances along the curve, measured as the sum of both rates
        targets = np.linspace(0, 2, ROC_POINTS)
        at = np.unique(np.searchsorted(false_rate + true_rate, targets).clip(max=len(false_rate) - 1))
        roc = tuple((float(x), float(y)) for x, y in zip(false_rate[at], true_rate[at], strict=True))
        return Curves(roc, tuple(_calibration(accumulator)))


class MulticlassMetrics(LabelMetrics):
    """Metrics for classes 0 to n, from a probability for each. The most probable class is the prediction."""

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return labels >= 0

    def sums(self, labels: Array, predictions: Array) -> Array:
        ids = labels.astype(np.int64)
        probability = predictions[np.arange(len(ids)), ids]
        loss = -np.log(np.clip(probability, EPSILON, 1 - EPSILON))
        correct = np.where(np.isfinite(probability), predictions.argmax(axis=1) == ids, np.nan)
        return np.stack([np.ones(len(ids)), correct, loss], axis=1)

    def metrics(self, accumulator: MetricAccumulator) -> dict[str, float]:
        examples, correct, loss = accumulator.sums
        return {"accuracy": float(correct / examples), "crossentropy": float(loss / examples)}

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:  # noqa: ARG002
        """The classes."""
        return labels.astype(np.int64)

    def margin(self, accumulator: MetricAccumulator) -> Margin | None:
        """Of the accuracy (Wilson, "Probable inference, the law of succession, and statistical inference", 1927)."""
        weight, correct = accumulator.sums[:2]
        if not np.isfinite(correct):
            return None
        share, examples, z = correct / weight, accumulator.effective_examples, STANDARD_ERRORS
        width = z * np.sqrt(share * (1 - share) / examples + z**2 / (4 * examples**2)) / (1 + z**2 / examples)
        return Margin("accuracy", float(share), float(width), TOO_WIDE)

    def constant(self, accumulator: MetricAccumulator) -> dict[str, float]:
        counts = accumulator.counts.sum(axis=1)
        return {"accuracy": float(counts.max() / counts.sum()), "crossentropy": _entropy(counts)}


class NextWordMetrics(MulticlassMetrics):
    """Metrics for the word after a text, from a probability for each word and a last one for all unknown words.

    A label outside the vocabulary is never predicted correctly; its cross-entropy is that of the unknown words as one.
    """

    def sums(self, labels: Array, predictions: Array) -> Array:
        ids = labels.astype(np.int64)
        probability = predictions[np.arange(len(ids)), ids]
        loss = -np.log(np.clip(probability, EPSILON, 1 - EPSILON))
        before = np.arange(predictions.shape[1]) < ids[:, None]  # the first of equally probable words, as in argmax
        ahead = (predictions > probability[:, None]) | ((predictions == probability[:, None]) & before)
        rank = np.sum(ahead, axis=1)
        known = ids < predictions.shape[1] - 1
        correct = [np.where(np.isfinite(probability), known & (rank < k), np.nan) for k in (1, TOP)]
        return np.stack([np.ones(len(ids)), *correct, loss], axis=1)

    def metrics(self, accumulator: MetricAccumulator) -> dict[str, float]:
        examples, correct, in_top, loss = accumulator.sums
        entropy = loss / examples
        return {
            "accuracy": float(correct / examples),
            "top_5_accuracy": float(in_top / examples),
            "crossentropy": float(entropy),
            "perplexity": float(np.exp(entropy)),
        }

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:
        """The words, and UNKNOWN_WORD for all others."""
        ids = labels.astype(np.int64)
        return np.where(ids < predictions.shape[1] - 1, ids, UNKNOWN_WORD)

    def constant(self, accumulator: MetricAccumulator) -> dict[str, float]:
        counts = accumulator.counts.sum(axis=1)
        known = np.sort(counts[accumulator.buckets != UNKNOWN_WORD])[::-1]
        entropy = _entropy(counts)
        return {
            "accuracy": float(known[:1].sum() / counts.sum()),
            "top_5_accuracy": float(known[:TOP].sum() / counts.sum()),
            "crossentropy": entropy,
            "perplexity": float(np.exp(entropy)),
        }


def _areas(counts: Array) -> tuple[float, float]:
    """The areas under the ROC curve (trapezoids) and under the precision-recall curve.

    The latter is interpolated as in Davis and Goadrich, "The relationship between precision-recall and ROC curves",
    2006: between two points, true positives grow linearly with all positive predictions.
    """
    negatives, positives = counts[::-1].T  # from the highest predictions down
    if not (negatives.sum() and positives.sum()):
        return np.nan, np.nan
    true = np.concatenate([[0], np.cumsum(positives)])
    false = np.concatenate([[0], np.cumsum(negatives)])
    area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2) / (true[-1] * false[-1]))
    predicted = true + false
    slope = positives / np.diff(predicted)
    intercept = true[1:] - slope * predicted[1:]
    growth = np.divide(predicted[1:], predicted[:-1], out=np.ones_like(slope), where=predicted[:-1] > 0)
    return area, float(np.sum(slope * (positives + intercept * np.log(growth))) / true[-1])


def _calibration(accumulator: MetricAccumulator) -> list[tuple[float, float, float]]:
    """(mean prediction, share of positives, weight of the examples) of each bin that has examples."""
    predictions = 1 / (1 + np.exp(-(accumulator.buckets + 0.5) / RESOLUTION))
    bins = np.minimum((predictions * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    examples = np.bincount(bins, accumulator.counts.sum(axis=1), CALIBRATION_BINS)
    sums = np.bincount(bins, predictions * accumulator.counts.sum(axis=1), CALIBRATION_BINS)
    positives = np.bincount(bins, accumulator.counts[:, 1], CALIBRATION_BINS)
    return [
        (float(total / n), float(share / n), float(n))
        for total, share, n in zip(sums, positives, examples, strict=True)
        if n
    ]


def _entropy(counts: Array) -> float:
    """The cross-entropy of predicting the shares of the classes, in nats."""
    shares = counts[counts > 0] / counts.sum()
    return float(-np.sum(shares * np.log(shares)))


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else float("nan")


def _register_with_tfma(name: str) -> None:
    """Register a metric class that TFMA's validation looks up by its name in an EvalConfig. It computes nothing."""

    def initialize(self: metric_types.Metric, name: str) -> None:
        metric_types.Metric.__init__(self, lambda **_: [], name=name)

    metric_types.register_metric(type(name, (metric_types.Metric,), {"__init__": initialize}))


for _name in METRICS["next_word"].values():
    _register_with_tfma(_name)
