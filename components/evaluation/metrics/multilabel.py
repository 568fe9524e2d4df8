"""Metrics for labels of any number of classes at once, from the probability of each class.

macro: the mean over the classes; micro: over all pairs of an example and a class; subset: an example counts as correct
if all of its classes are. They are those of scikit-learn, in which a ratio without a denominator is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.metrics.accumulator import Array, LabelMetrics, Margin, Totals
from headrace.components.evaluation.metrics.classification import EPSILON, TOO_WIDE, areas, entropy, wilson_width
from headrace.components.evaluation.result import ClassMetrics
from headrace.configs.schema.evaluate import METRICS

RESOLUTION = 4096
"""Histogram buckets of a class for each unit of log-odds: a bucket is 0.00006 wide at a probability of 0.5."""
CLASS_SPAN = 1 << 19
"""More than the buckets of a class. `class * CLASS_SPAN + bucket` is that of a pair of an example and a class."""
MIDDLE = CLASS_SPAN // 2
"""The bucket of a probability of 0.5."""
WHOLE = 4
"""The first sums, which are over all classes: weight, loss, correct subsets, wrong decisions."""


@dataclass(frozen=True)
class MultilabelMetrics(LabelMetrics):
    """Labels and predictions are [n, classes]. A class counts as predicted if its probability is above `threshold`."""

    threshold: float = 0.5
    label_rank = 2

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return np.all((labels == 0) | (labels == 1), axis=1)

    def losses(self, labels: Array, predictions: Array) -> Array:
        """The mean of the cross-entropies of the classes."""
        clipped = np.clip(predictions, EPSILON, 1 - EPSILON)
        each: Array = -np.where(labels == 1, np.log(clipped), np.log1p(-clipped))
        return each.mean(axis=1)

    def predicted(self, predictions: Array) -> Array:
        return (predictions > self.threshold).astype(np.float64)

    def sums(self, labels: Array, predictions: Array) -> Array:
        """After those that WHOLE lists, for each class: in it, predicted, and both."""
        chosen = self.predicted(predictions)
        wrong = np.sum(chosen != labels, axis=1)
        whole = np.stack([np.ones(len(labels)), self.losses(labels, predictions), wrong == 0, wrong], axis=1)
        return np.concatenate([whole, labels, chosen, labels * chosen], axis=1)

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:  # noqa: ARG002
        p = np.clip(np.nan_to_num(predictions), 1e-15, 1 - 1e-15)
        buckets = np.floor(RESOLUTION * (np.log(p) - np.log1p(-p))).astype(np.int64)
        return buckets + MIDDLE + CLASS_SPAN * np.arange(p.shape[1])

    def metrics(self, totals: Totals) -> dict[str, float]:
        weight, loss, subsets, wrong = totals.sums[:WHOLE]
        if not np.isfinite(loss):
            return dict.fromkeys(METRICS["multilabel"], np.nan)
        positives, chosen, true = _of_classes(totals)
        class_areas = _class_areas(totals)
        defined = class_areas[np.isfinite(class_areas)]
        return {
            "macro_auc": float(defined.mean()) if len(defined) else np.nan,
            "micro_auc": _micro_auc(totals.buckets % CLASS_SPAN, totals.counts),
            "macro_f1": float(_ratio(2 * true, positives + chosen).mean()),
            "micro_f1": float(_ratio(2 * true.sum(), positives.sum() + chosen.sum())),
            "subset_accuracy": float(subsets / weight),
            "hamming_loss": float(wrong / weight / len(positives)),
            "binary_crossentropy": float(loss / weight),
            "macro_precision": float(_ratio(true, chosen).mean()),
            "macro_recall": float(_ratio(true, positives).mean()),
            "micro_precision": float(_ratio(true.sum(), chosen.sum())),
            "micro_recall": float(_ratio(true.sum(), positives.sum())),
        }

    def constant(self, totals: Totals) -> dict[str, float]:
        """Of predicting the share of each class; for F1 and the Hamming loss, of the best fixed set of classes.

        The F1 of a class is highest if it is always predicted, the micro F1 with the most frequent classes.
        """
        weight, (positives, _, _) = float(totals.sums[0]), _of_classes(totals)
        entropies = [entropy(np.array([count, weight - count])) for count in positives]
        frequent = np.sort(positives)[::-1]
        always = weight * np.arange(1, len(frequent) + 1)
        pairs = np.stack([weight - positives, positives], axis=1)
        return {
            "macro_auc": 0.5,
            "micro_auc": _micro_auc(np.unique(positives, return_inverse=True)[1], pairs),
            "macro_f1": float(_ratio(2 * positives, positives + weight).mean()),
            "micro_f1": float(_ratio(2 * np.cumsum(frequent), positives.sum() + always).max()),
            "hamming_loss": float(np.minimum(positives, weight - positives).mean() / weight),
            "binary_crossentropy": float(np.mean(entropies)),
        }

    def margin(self, totals: Totals) -> Margin | None:
        """Of the subset accuracy."""
        weight, loss, subsets = totals.sums[: WHOLE - 1]
        if not np.isfinite(loss):
            return None
        share = float(subsets / weight)
        return Margin("subset_accuracy", share, wilson_width(share, totals.effective_examples), TOO_WIDE)

    def classes(self, totals: Totals) -> tuple[ClassMetrics, ...]:
        if not np.isfinite(totals.sums).all():
            return ()
        positives, chosen, true = _of_classes(totals)
        each = zip(
            positives / totals.sums[0],
            _class_areas(totals),
            _ratio(true, chosen),
            _ratio(true, positives),
            _ratio(2 * true, positives + chosen),
            strict=True,
        )
        return tuple(
            ClassMetrics(number, float(share), float(area) if np.isfinite(area) else None, *map(float, ratios))
            for number, (share, area, *ratios) in enumerate(each)
        )


def _of_classes(totals: Totals) -> tuple[Array, Array, Array]:
    """The weight of the examples in each class, of those for which it is predicted, and of both: [classes] each."""
    positives, chosen, true = totals.sums[WHOLE:].reshape(3, -1)
    return positives, chosen, true


def _class_areas(totals: Totals) -> Array:
    """The area under the ROC curve of each class; NaN if all examples belong to it, or none."""
    number = (len(totals.sums) - WHOLE) // 3
    edges = np.searchsorted(totals.buckets, CLASS_SPAN * np.arange(number + 1))
    counts = [totals.counts[start:end] for start, end in pairwise(edges)]
    return np.array([areas(each)[0] for each in counts])


def _micro_auc(buckets: NDArray[np.int64], counts: Array) -> float:
    """The area under the ROC curve of all pairs. counts: of the pairs in each of these buckets, as in `Totals`."""
    index = np.unique(buckets, return_inverse=True)[1]
    return areas(np.stack([np.bincount(index, column) for column in counts.T], axis=1).astype(np.float64))[0]


def _ratio(numerator: Array, denominator: Array) -> Array:
    """The ratio of each pair; 0 without a denominator."""
    return np.divide(numerator, denominator, out=np.zeros(np.shape(numerator)), where=np.asarray(denominator) > 0)
