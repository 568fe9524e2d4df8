"""Metrics for several classes of which an example has one, and for the next word of a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.limits import Proportion, Proportions
from headrace.components.evaluation.metrics.accumulator import (
    Array,
    LabelMetrics,
    Margin,
    Totals,
)
from headrace.components.evaluation.metrics.by_class import (
    CLASS_SPAN,
    class_pairs,
    correlation_of_classes,
    pair_weights,
    proportions_by_class,
    scores_by_class,
)
from headrace.components.evaluation.metrics.classification import EPSILON, TOO_WIDE, confusion_of, entropy, wilson_width
from headrace.components.evaluation.metrics.one_vs_rest import MACRO, WEIGHTED, OneVsRest, buckets_of, classes_of
from headrace.components.evaluation.result import ClassMetrics, Confusion
from headrace.configs.schema.metrics import METRICS, TOP_K

TOP = 5
UNKNOWN_WORD = -1
"""The bucket of all words outside the vocabulary."""
MOST_CLASSES = 30
"""Classes of which a table shows how often each is taken for another."""


@dataclass(frozen=True)
class MulticlassMetrics(LabelMetrics):
    """Metrics for classes 0 to n, from a probability for each. The most probable class is the prediction.

    one_vs_rest: whether the areas under the ROC curves of the classes are measured too; tops: each K of a
    `top_K_accuracy`, for which an example is right if less than K classes are more probable than its own, as in Keras'
    TopKCategoricalAccuracy.
    """

    one_vs_rest: bool = False
    tops: tuple[int, ...] = ()

    @property
    def _top_names(self) -> tuple[str, ...]:
        return tuple(f"top_{k}_accuracy" for k in self.tops)

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return labels >= 0

    def losses(self, labels: Array, predictions: Array) -> Array:
        return -np.log(np.clip(_of_labels(labels, predictions), EPSILON, 1 - EPSILON))

    def predicted(self, predictions: Array) -> Array:
        return predictions.argmax(axis=1).astype(np.float64)

    def sums(self, labels: Array, predictions: Array) -> Array:
        ids, probability = labels.astype(np.int64), _of_labels(labels, predictions)
        loss, finite = self.losses(labels, predictions), np.isfinite(probability)
        correct = np.where(finite, _rank(ids, predictions, probability) == 0, np.nan)
        above = np.sum(predictions > probability[:, None], axis=1) if self.tops else 0
        in_top = [np.where(finite, above < k, np.nan) for k in self.tops]
        return np.stack([np.ones(len(ids)), correct, *in_top, loss], axis=1)

    def metrics(self, totals: Totals) -> dict[str, float]:
        examples, correct, *in_top, loss = totals.sums
        if not np.isfinite(loss):
            return dict.fromkeys((*METRICS["multiclass"].keys() - {TOP_K}, *self._top_names), np.nan)
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
            **{name: float(each / examples) for name, each in zip(self._top_names, in_top, strict=True)},
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
        return confusion_of(classes.tolist(), counts)

    def proportions(self, totals: Totals) -> Proportions:
        whole = (Proportion(totals.effective_examples),)
        names = ("accuracy", "weighted_recall", "micro_precision", "micro_recall", "micro_f1")
        averages = OneVsRest.of(totals).proportions(totals) if self.one_vs_rest else {}
        found = dict.fromkeys((*names, *self._top_names), whole)
        return {**found, **proportions_by_class(totals), **averages}

    def classes(self, totals: Totals) -> tuple[ClassMetrics, ...]:
        return classes_of(totals) if self.one_vs_rest and np.isfinite(totals.sums).all() else ()

    def margin(self, totals: Totals) -> Margin | None:
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

    def confusion(self, totals: Totals) -> Confusion | None:
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


def _of_labels(labels: Array, predictions: Array) -> Array:
    """The probability of the class that is the label, [n]."""
    ids = labels.astype(np.int64)
    return predictions[np.arange(len(ids)), ids]


def _rank(ids: NDArray[np.int64], predictions: Array, probability: Array) -> NDArray[np.int64]:
    """How many classes are predicted ahead of that of each example: of equally probable ones the first, as argmax."""
    before = np.arange(predictions.shape[1]) < ids[:, None]
    ahead = (predictions > probability[:, None]) | ((predictions == probability[:, None]) & before)
    return np.sum(ahead, axis=1)
