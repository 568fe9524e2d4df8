"""Metrics for classes: binary, multiclass, and the next word of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorflow_model_analysis.metrics import metric_types

from headrace.components.evaluation.metrics.accumulator import (
    STANDARD_ERRORS,
    Array,
    LabelMetrics,
    Margin,
    Totals,
)
from headrace.components.evaluation.result import Confusion, Curves, DecisionPoint
from headrace.configs.schema.evaluate import METRICS, OURS

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
DECISION_POINTS = 99
"""Thresholds at which precision and recall are shown."""
MOST_CLASSES = 30
"""Classes of which a table shows how often each is taken for another."""
CLASS_SPAN = 1 << 18
"""More than the classes of a label. `class * CLASS_SPAN + prediction` is the bucket of an example."""


@dataclass(frozen=True)
class BinaryMetrics(LabelMetrics):
    """Metrics for two classes, from the probability of the second, [n, 1].

    Those of decisions (accuracy, precision, recall and what is made of them) count a prediction above `threshold` as
    positive, exactly. The areas under the curves are sums over a fine histogram.
    """

    threshold: float = 0.5

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return (labels == 0) | (labels == 1)

    def losses(self, labels: Array, predictions: Array) -> Array:
        clipped = np.clip(predictions[:, 0], EPSILON, 1 - EPSILON)
        return -np.where(labels == 1, np.log(clipped), np.log1p(-clipped))

    def predicted(self, predictions: Array) -> Array:
        return (predictions[:, 0] > self.threshold).astype(np.float64)

    def sums(self, labels: Array, predictions: Array) -> Array:
        p, above = predictions[:, 0], self.predicted(predictions)
        loss = self.losses(labels, predictions)
        return np.stack([np.ones_like(p), labels, p, loss, above, above * labels], axis=1)

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:  # noqa: ARG002
        p = np.clip(np.nan_to_num(predictions[:, 0]), 1e-15, 1 - 1e-15)
        return np.floor(RESOLUTION * (np.log(p) - np.log1p(-p))).astype(np.int64)

    def metrics(self, totals: Totals) -> dict[str, float]:
        examples, positives, probability, loss, above, true_positives = totals.sums
        if not np.isfinite(probability):
            return dict.fromkeys(METRICS["binary"], np.nan)
        area, area_precision_recall = areas(totals.counts)
        return {
            "auc": area,
            "auc_precision_recall": area_precision_recall,
            "binary_crossentropy": _ratio(loss, examples),
            "calibration": _ratio(probability, positives),
            **_of_decisions(true_positives, above - true_positives, positives, examples - positives),
        }

    def constant(self, totals: Totals) -> dict[str, float]:
        examples, positives = totals.sums[:2]
        share = positives / examples
        return {
            "auc": 0.5,
            "auc_precision_recall": float(share),
            "binary_accuracy": float(max(share, 1 - share)),
            "binary_crossentropy": entropy(np.array([positives, examples - positives])),
        }

    def margin(self, totals: Totals) -> Margin | None:
        """Of the AUC (Hanley and McNeil, "The meaning and use of the area under a ROC curve", Radiology 143, 1982)."""
        examples = totals.effective_examples
        positives = totals.sums[1] * examples / totals.sums[0]
        area = self.metrics(totals)["auc"]
        negatives = examples - positives
        if not np.isfinite(area):
            return None
        two_positives, two_negatives = area / (2 - area), 2 * area**2 / (1 + area)
        variance = area * (1 - area)
        variance += (positives - 1) * (two_positives - area**2) + (negatives - 1) * (two_negatives - area**2)
        width = STANDARD_ERRORS * float(np.sqrt(max(variance, 0) / (positives * negatives)))
        return Margin("auc", area, width, TOO_WIDE, float(min(positives, negatives)))

    def curves(self, totals: Totals) -> Curves | None:
        negatives, positives = totals.counts[::-1].T
        if not (negatives.sum() and positives.sum() and np.isfinite(totals.sums).all()):
            return None
        false_rate = np.concatenate([[0], np.cumsum(negatives) / negatives.sum()])
        true_rate = np.concatenate([[0], np.cumsum(positives) / positives.sum()])
        # points at equal distances along the curve, measured as the sum of both rates
        targets = np.linspace(0, 2, ROC_POINTS)
        at = np.unique(np.searchsorted(false_rate + true_rate, targets).clip(max=len(false_rate) - 1))
        roc = tuple((float(x), float(y)) for x, y in zip(false_rate[at], true_rate[at], strict=True))
        return Curves(roc, tuple(_calibration(totals)), tuple(_decision_points(totals)))

    def confusion(self, totals: Totals) -> Confusion | None:
        examples, positives, probability, _, above, true_positives = totals.sums
        if not np.isfinite(probability):
            return None
        false_positives, missed = above - true_positives, positives - true_positives
        counts = [[examples - positives - false_positives, false_positives], [missed, true_positives]]
        return Confusion((0, 1), _rows(counts))


class MulticlassMetrics(LabelMetrics):
    """Metrics for classes 0 to n, from a probability for each. The most probable class is the prediction."""

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return labels >= 0

    def losses(self, labels: Array, predictions: Array) -> Array:
        return -np.log(np.clip(_of_labels(labels, predictions), EPSILON, 1 - EPSILON))

    def predicted(self, predictions: Array) -> Array:
        return predictions.argmax(axis=1).astype(np.float64)

    def sums(self, labels: Array, predictions: Array) -> Array:
        ids, probability = labels.astype(np.int64), _of_labels(labels, predictions)
        loss = self.losses(labels, predictions)
        rank = _rank(ids, predictions, probability)
        in_top = [np.where(np.isfinite(probability), rank < k, np.nan) for k in (1, 3, 5)]
        return np.stack([np.ones(len(ids)), *in_top, loss], axis=1)

    def metrics(self, totals: Totals) -> dict[str, float]:
        examples, correct, in_top_3, in_top_5, loss = totals.sums
        if not np.isfinite(loss):
            return dict.fromkeys(METRICS["multiclass"], np.nan)
        precision, recall, f1, present = _by_class(totals)
        return {
            "accuracy": float(correct / examples),
            "crossentropy": float(loss / examples),
            "macro_precision": float(precision.mean()),
            "macro_recall": float(recall.mean()),
            "macro_f1": float(f1.mean()),
            "weighted_f1": float(np.average(f1, weights=present)),
            "top_3_accuracy": float(in_top_3 / examples),
            "top_5_accuracy": float(in_top_5 / examples),
        }

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:
        """The classes with what is predicted for them."""
        return labels.astype(np.int64) * CLASS_SPAN + predictions.argmax(axis=1)

    def confusion(self, totals: Totals) -> Confusion | None:
        if not np.isfinite(totals.sums).all():
            return None
        classes, pairs = _pairs(totals)
        if len(classes) > MOST_CLASSES:
            return None
        counts = np.zeros((len(classes), len(classes)))
        np.add.at(counts, tuple(pairs), totals.counts.sum(axis=1))
        return Confusion(tuple(classes.tolist()), _rows(counts))

    def margin(self, totals: Totals) -> Margin | None:
        """Of the accuracy."""
        weight, correct = totals.sums[:2]
        if not np.isfinite(correct):
            return None
        share = float(correct / weight)
        return Margin("accuracy", share, wilson_width(share, totals.effective_examples), TOO_WIDE)

    def constant(self, totals: Totals) -> dict[str, float]:
        counts = np.bincount(totals.buckets // CLASS_SPAN, totals.counts.sum(axis=1)).astype(np.float64)
        return {"accuracy": float(counts.max() / counts.sum()), "crossentropy": entropy(counts)}


class NextWordMetrics(MulticlassMetrics):
    """Metrics for the word after a text, from a probability for each word and a last one for all unknown words.

    A label outside the vocabulary is never predicted correctly; its cross-entropy is that of the unknown words as one.
    """

    def predicted(self, predictions: Array) -> Array:
        return predictions[:, :-1].argmax(axis=1).astype(np.float64)

    def sums(self, labels: Array, predictions: Array) -> Array:
        ids, probability = labels.astype(np.int64), _of_labels(labels, predictions)
        loss = self.losses(labels, predictions)
        rank = _rank(ids, predictions, probability)
        known = ids < predictions.shape[1] - 1
        correct = [np.where(np.isfinite(probability), known & (rank < k), np.nan) for k in (1, TOP)]
        return np.stack([np.ones(len(ids)), *correct, loss], axis=1)

    def metrics(self, totals: Totals) -> dict[str, float]:
        examples, correct, in_top, loss = totals.sums
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

    def constant(self, totals: Totals) -> dict[str, float]:
        return by_shares(totals.counts.sum(axis=1), totals.buckets)


def by_shares(counts: NDArray[np.float64], words: NDArray[np.int64]) -> dict[str, float]:
    """The metrics of predicting the share of each word, whatever comes before.

    counts: weighted occurrences of each of the words, [n]; words: their ids, [n], of which UNKNOWN_WORD is never right.
    """
    known = np.sort(counts[words != UNKNOWN_WORD])[::-1]
    loss = entropy(counts)
    return {
        "accuracy": float(known[:1].sum() / counts.sum()),
        "top_5_accuracy": float(known[:TOP].sum() / counts.sum()),
        "crossentropy": loss,
        "perplexity": float(np.exp(loss)),
    }


def wilson_width(share: float, examples: float) -> float:
    """Half the 95 % confidence interval of a share of examples (Wilson, "Probable inference, the law of succession, and
    statistical inference", 1927).
    """
    z = STANDARD_ERRORS
    spread = np.sqrt(share * (1 - share) / examples + z**2 / (4 * examples**2))
    return float(z * spread / (1 + z**2 / examples))


def _of_labels(labels: Array, predictions: Array) -> Array:
    """The probability of the class that is the label, [n]."""
    ids = labels.astype(np.int64)
    return predictions[np.arange(len(ids)), ids]


def _rank(ids: NDArray[np.int64], predictions: Array, probability: Array) -> NDArray[np.int64]:
    """How many classes are predicted ahead of that of each example: of equally probable ones the first, as argmax."""
    before = np.arange(predictions.shape[1]) < ids[:, None]
    ahead = (predictions > probability[:, None]) | ((predictions == probability[:, None]) & before)
    return np.sum(ahead, axis=1)


def _of_decisions(
    true_positives: float, false_positives: float, positives: float, negatives: float
) -> dict[str, float]:
    """The metrics of yes-or-no decisions, by their names in the config."""
    true_negatives, missed = negatives - false_positives, positives - true_positives
    precision = _ratio(true_positives, true_positives + false_positives)
    recall, specificity = _ratio(true_positives, positives), _ratio(true_negatives, negatives)
    # Matthews, "Comparison of the predicted and observed secondary structure of T4 phage lysozyme", 1975
    product = (true_positives + false_positives) * positives * negatives * (true_negatives + missed)
    agreement = true_positives * true_negatives - false_positives * missed
    return {
        "binary_accuracy": _ratio(true_positives + true_negatives, positives + negatives),
        "balanced_accuracy": (recall + specificity) / 2,
        "precision": precision,
        "recall": recall,
        "specificity": specificity,
        "f1": _ratio(2 * true_positives, 2 * true_positives + false_positives + missed),
        "matthews_correlation": _ratio(agreement, float(np.sqrt(product))),
    }


def _decision_points(totals: Totals) -> list[DecisionPoint]:
    """Precision, recall and F1 at thresholds that each let a further hundredth of the examples through."""
    negatives, positives = totals.counts[::-1].T  # from the highest predictions down
    true, false = np.cumsum(positives), np.cumsum(negatives)
    above = true + false
    shares = np.arange(1, DECISION_POINTS + 1) / (DECISION_POINTS + 1)
    at = np.unique(np.searchsorted(above, shares * above[-1]).clip(max=len(above) - 1))
    lower_edges = 1 / (1 + np.exp(-(totals.buckets[::-1] / RESOLUTION)))
    return [
        DecisionPoint(
            threshold=float(lower_edges[index]),
            share=float(above[index] / above[-1]),
            precision=float(true[index] / above[index]),
            recall=float(true[index] / true[-1]),
            f1=float(2 * true[index] / (above[index] + true[-1])),
        )
        for index in at
        if above[index]
    ]


def _pairs(totals: Totals) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The classes that are labels or predictions, and the places of both in them for each bucket, [2, m]."""
    both = np.stack(np.divmod(totals.buckets, CLASS_SPAN))
    classes, places = np.unique(both, return_inverse=True)
    return classes, places.reshape(both.shape)


def _by_class(totals: Totals) -> tuple[Array, Array, Array, Array]:
    """Precision, recall and F1 of each class, and its weight. What divides by nothing is 0, as in scikit-learn."""
    classes, (labels, predicted) = _pairs(totals)
    weights = totals.counts.sum(axis=1)

    def total(index: NDArray[np.int64], values: Array) -> Array:
        return np.bincount(index, values, len(classes)).astype(np.float64)

    true, present = total(labels, np.where(labels == predicted, weights, 0)), total(labels, weights)
    chosen = total(predicted, weights)

    def ratio(numerator: Array, denominator: Array) -> Array:
        return np.divide(numerator, denominator, out=np.zeros(len(classes)), where=denominator > 0)

    return ratio(true, chosen), ratio(true, present), ratio(2 * true, chosen + present), present


def _rows(counts: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in counts)


def areas(counts: Array) -> tuple[float, float]:
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


def _calibration(totals: Totals) -> list[tuple[float, float, float]]:
    """(mean prediction, share of positives, weight of the examples) of each bin that has examples."""
    predictions = 1 / (1 + np.exp(-(totals.buckets + 0.5) / RESOLUTION))
    bins = np.minimum((predictions * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    examples = np.bincount(bins, totals.counts.sum(axis=1), CALIBRATION_BINS)
    sums = np.bincount(bins, predictions * totals.counts.sum(axis=1), CALIBRATION_BINS)
    positives = np.bincount(bins, totals.counts[:, 1], CALIBRATION_BINS)
    return [
        (float(total / n), float(share / n), float(n))
        for total, share, n in zip(sums, positives, examples, strict=True)
        if n
    ]


def entropy(counts: Array) -> float:
    """The cross-entropy of predicting the shares of the classes, in nats."""
    shares = counts[counts > 0] / counts.sum()
    return float(-np.sum(shares * np.log(shares)))


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else float("nan")


def _register_with_tfma(name: str) -> None:
    """Register a metric class that TFMA's validation looks up by its name in an EvalConfig. It computes nothing."""

    def initialize(self: metric_types.Metric, name: str, thresholds: list[float] | None = None) -> None:  # noqa: ARG001
        metric_types.Metric.__init__(self, lambda **_: [], name=name)

    metric_types.register_metric(type(name, (metric_types.Metric,), {"__init__": initialize}))


for _name in OURS:
    _register_with_tfma(_name)
