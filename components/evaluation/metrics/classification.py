"""Metrics for classes: binary, multiclass, and the next word of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensorflow_model_analysis.metrics import metric_types

from headrace.components.evaluation.limits import Proportion, Proportions
from headrace.components.evaluation.metrics import probabilities
from headrace.components.evaluation.metrics.accumulator import (
    STANDARD_ERRORS,
    Array,
    LabelMetrics,
    Margin,
    Totals,
)
from headrace.components.evaluation.metrics.areas import areas
from headrace.components.evaluation.metrics.by_class import (
    CLASS_SPAN,
    class_pairs,
    correlation_of_classes,
    pair_weights,
    proportions_by_class,
    scores_by_class,
)
from headrace.components.evaluation.metrics.decisions import at_level, decision_metrics, decision_proportions, ratio
from headrace.components.evaluation.metrics.one_vs_rest import MACRO, WEIGHTED, OneVsRest, buckets_of, classes_of
from headrace.components.evaluation.metrics.probabilities import Linear
from headrace.components.evaluation.result import ClassMetrics, Confusion, Curves, DecisionPoint
from headrace.configs.schema.metrics import AT_TARGET, METRICS, OURS, split_level, with_level

EPSILON = 1e-7
"""Probabilities are clipped to [EPSILON, 1 - EPSILON] inside logarithms, as in Keras and TFMA."""
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


@dataclass(frozen=True)
class BinaryMetrics(LabelMetrics):
    """Metrics for two classes, from the probability of the second, [n, 1].

    Those of decisions (accuracy, precision, recall and what is made of them) count a prediction above `threshold` as
    positive, exactly. The areas under the curves are sums over a fine histogram, in which the best threshold is looked
    for too. levels: the names of further metrics that have a level, such as `precision@0.3`.
    """

    threshold: float = 0.5
    levels: tuple[str, ...] = ()

    @property
    def _thresholds(self) -> list[float]:
        """Those of the metrics of decisions among `levels`."""
        pairs = map(split_level, self.levels)
        return sorted({level for base, level in pairs if level is not None and base not in AT_TARGET})

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
        further = [p > threshold for threshold in self._thresholds]
        pairs = [column for chosen in further for column in (chosen, chosen * labels)]
        return np.stack([np.ones_like(p), labels, p, loss, (p - labels) ** 2, above, above * labels, *pairs], axis=1)

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:  # noqa: ARG002
        return probabilities.buckets_of(predictions[:, 0])

    def linear(self, totals: Totals) -> Linear:
        return probabilities.linear(totals.buckets, totals.counts)

    def metrics(self, totals: Totals) -> dict[str, float]:
        examples, positives, probability, loss, squares, *pairs = totals.sums
        if not np.isfinite(probability):
            return dict.fromkeys((*METRICS["binary"].keys() - AT_TARGET, *self.levels), np.nan)
        area, area_precision_recall = areas(totals.counts)
        (own, *others), negatives = np.reshape(pairs, (-1, 2)), examples - positives
        decisions = {
            level: decision_metrics(true, above - true, positives, negatives)
            for level, (above, true) in zip(self._thresholds, others, strict=True)
        }
        at_levels = {name: at_level(name, totals, decisions) for name in self.levels}
        return {
            "auc": area,
            "auc_precision_recall": area_precision_recall,
            "binary_crossentropy": ratio(loss, examples),
            "brier_score": ratio(squares, examples),
            "calibration": ratio(probability, positives),
            **decision_metrics(own[1], own[0] - own[1], positives, negatives),
            **at_levels,
        }

    def constant(self, totals: Totals) -> dict[str, float]:
        examples, positives = totals.sums[:2]
        share = positives / examples
        return {
            "auc": 0.5,
            "auc_precision_recall": float(share),
            "binary_accuracy": float(max(share, 1 - share)),
            "binary_crossentropy": entropy(np.array([positives, examples - positives])),
            "brier_score": float(share * (1 - share)),
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

    def proportions(self, totals: Totals) -> Proportions:
        """Those of all but the area under the precision-recall curve, which is no proportion of independent trials."""
        examples, positives = totals.sums[:2]
        pairs = Proportion(min(totals.trials(positives), totals.trials(examples - positives)))
        found: dict[str, Sequence[Proportion]] = {"auc": (pairs,)}
        for level, (above, true) in zip([None, *self._thresholds], totals.sums[5:].reshape(-1, 2), strict=True):
            each = decision_proportions(totals, above, above + positives - true)
            found |= {name if level is None else with_level(name, level): shares for name, shares in each.items()}
        return found

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
        examples, positives, probability = totals.sums[:3]
        above, true_positives = totals.sums[5:7]
        if not np.isfinite(probability):
            return None
        false_positives, missed = above - true_positives, positives - true_positives
        counts = [[examples - positives - false_positives, false_positives], [missed, true_positives]]
        return Confusion((0, 1), _rows(counts))


@dataclass(frozen=True)
class MulticlassMetrics(LabelMetrics):
    """Metrics for classes 0 to n, from a probability for each. The most probable class is the prediction.

    one_vs_rest: whether the areas under the ROC curves of the classes are measured too.
    """

    one_vs_rest: bool = False

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
        averages = OneVsRest.of(totals).averages() if self.one_vs_rest else {}
        precision, recall, f1, present = scores_by_class(totals)
        return {
            "accuracy": float(correct / examples),
            "crossentropy": float(loss / examples),
            "macro_precision": float(precision.mean()),
            "macro_recall": float(recall.mean()),
            "macro_f1": float(f1.mean()),
            "weighted_f1": float(np.average(f1, weights=present)),
            "weighted_precision": float(np.average(precision, weights=present)),
            "weighted_recall": float(np.average(recall, weights=present)),
            **dict.fromkeys(("micro_precision", "micro_recall", "micro_f1"), float(correct / examples)),
            "matthews_correlation": correlation_of_classes(totals),
            "top_3_accuracy": float(in_top_3 / examples),
            "top_5_accuracy": float(in_top_5 / examples),
            **averages,
        }

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:
        """The classes with what is predicted for them, and behind them the buckets of the areas."""
        pairs = labels.astype(np.int64) * CLASS_SPAN + predictions.argmax(axis=1)
        return np.column_stack([pairs, buckets_of(predictions)]) if self.one_vs_rest else pairs

    def columns(self, labels: Array, predictions: Array) -> Array:
        if not self.one_vs_rest:
            return labels
        return np.column_stack([labels, labels[:, None] == np.arange(predictions.shape[1])])

    def confusion(self, totals: Totals) -> Confusion | None:
        if not np.isfinite(totals.sums).all():
            return None
        classes, pairs = class_pairs(totals)
        if len(classes) > MOST_CLASSES:
            return None
        counts = np.zeros((len(classes), len(classes)))
        np.add.at(counts, tuple(pairs), pair_weights(totals)[1])
        return Confusion(tuple(classes.tolist()), _rows(counts))

    def proportions(self, totals: Totals) -> Proportions:
        whole = (Proportion(totals.effective_examples),)
        names = ("accuracy", "weighted_recall", "micro_precision", "micro_recall", "micro_f1")
        averages = OneVsRest.of(totals).proportions(totals) if self.one_vs_rest else {}
        found = dict.fromkeys((*names, "top_3_accuracy", "top_5_accuracy"), whole)
        return {**found, **proportions_by_class(totals), **averages}

    def classes(self, totals: Totals) -> tuple[ClassMetrics, ...]:
        return classes_of(totals) if self.one_vs_rest and np.isfinite(totals.sums).all() else ()

    def margin(self, totals: Totals) -> Margin | None:
        """Of the accuracy."""
        weight, correct = totals.sums[:2]
        if not np.isfinite(correct):
            return None
        share = float(correct / weight)
        return Margin("accuracy", share, wilson_width(share, totals.effective_examples), TOO_WIDE)

    def constant(self, totals: Totals) -> dict[str, float]:
        buckets, weights = pair_weights(totals)
        counts = np.bincount(buckets // CLASS_SPAN, weights).astype(np.float64)
        averages = dict.fromkeys((MACRO, WEIGHTED), 0.5) if self.one_vs_rest else {}
        return {"accuracy": float(counts.max() / counts.sum()), "crossentropy": entropy(counts), **averages}


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

    def confusion(self, totals: Totals) -> Confusion | None:  # noqa: ARG002
        """None: the histogram does not have what is predicted."""
        return None

    def constant(self, totals: Totals) -> dict[str, float]:
        return by_shares(totals.counts.sum(axis=1), totals.buckets)

    def proportions(self, totals: Totals) -> Proportions:
        return dict.fromkeys(("accuracy", "top_5_accuracy"), (Proportion(totals.effective_examples),))


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


def _decision_points(totals: Totals) -> list[DecisionPoint]:
    """Precision, recall and F1 at thresholds that each let a further hundredth of the examples through."""
    negatives, positives = totals.counts[::-1].T  # from the highest predictions down
    true, false = np.cumsum(positives), np.cumsum(negatives)
    above = true + false
    shares = np.arange(1, DECISION_POINTS + 1) / (DECISION_POINTS + 1)
    at = np.unique(np.searchsorted(above, shares * above[-1]).clip(max=len(above) - 1))
    lower_edges = probabilities.least_of(totals.buckets[::-1])
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


def _rows(counts: Any) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in counts)


def _calibration(totals: Totals) -> list[tuple[float, float, float]]:
    """(mean prediction, share of positives, weight of the examples) of each bin that has examples."""
    predictions = probabilities.middle_of(totals.buckets)
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


def _register_with_tfma(name: str) -> None:
    """Register a metric class that TFMA's validation looks up by its name in an EvalConfig. It computes nothing."""

    def initialize(self: metric_types.Metric, name: str, thresholds: list[float] | None = None) -> None:  # noqa: ARG001
        metric_types.Metric.__init__(self, lambda **_: [], name=name)

    metric_types.register_metric(type(name, (metric_types.Metric,), {"__init__": initialize}))


for _name in OURS:
    _register_with_tfma(_name)
