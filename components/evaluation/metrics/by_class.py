"""Metrics of each class from a histogram of (label, prediction) pairs.

The histogram of `one_vs_rest.py` may be in the same buckets, below those of the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.limits import Proportion, as_it_is, f1_of
from headrace.components.evaluation.metrics.accumulator import Array, Totals
from headrace.components.evaluation.metrics.decisions import ratio

CLASS_SPAN = 1 << 20
"""More than the classes of a label. `class * CLASS_SPAN + prediction` is the bucket of an example."""


def pair_weights(totals: Totals) -> tuple[NDArray[np.int64], Array]:
    """The buckets of the pairs, and the weight of the examples in each, [m] both."""
    first = np.searchsorted(totals.buckets, 0)
    return totals.buckets[first:], totals.counts[first:].sum(axis=1)


def class_pairs(totals: Totals) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The classes that are labels or predictions, and the positions of both in them for each bucket, [2, m]."""
    both = np.stack(np.divmod(pair_weights(totals)[0], CLASS_SPAN))
    classes, positions = np.unique(both, return_inverse=True)
    return classes, positions.reshape(both.shape)


def class_weights(totals: Totals) -> tuple[NDArray[np.int64], Array, Array, Array]:
    """The classes, and the weight of the examples of each that are predicted right, that belong to it, and for which it
    is predicted, [classes] each.
    """
    classes, (labels, predicted) = class_pairs(totals)
    weights = pair_weights(totals)[1]

    def total(index: NDArray[np.int64], values: Array) -> Array:
        return np.bincount(index, values, len(classes)).astype(np.float64)

    true, present = total(labels, np.where(labels == predicted, weights, 0)), total(labels, weights)
    return classes, true, present, total(predicted, weights)


def scores_by_class(totals: Totals) -> tuple[Array, Array, Array, Array]:
    """Precision, recall and F1 of each class, and its weight. What divides by nothing is 0, as in scikit-learn."""
    classes, true, present, chosen = class_weights(totals)

    def share(numerator: Array, denominator: Array) -> Array:
        return np.divide(numerator, denominator, out=np.zeros(len(classes)), where=denominator > 0)

    return share(true, chosen), share(true, present), share(2 * true, chosen + present), present


def proportions_by_class(totals: Totals) -> dict[str, Sequence[Proportion]]:
    """The shares that the means over the classes are made of."""
    _, true, present, chosen = class_weights(totals)
    either, equally = present + chosen - true, np.ones_like(present)

    def proportions(weights: Array, means: Array, transform: Callable[[float], float] = as_it_is) -> list[Proportion]:
        """weights: of the examples that the share of each class is of; means: of the classes in the mean."""
        pairs = zip(map(totals.trials, weights), map(float, means), strict=True)
        return [Proportion(trials, mean, transform) for trials, mean in pairs]

    return {
        "macro_precision": proportions(chosen, equally),
        "macro_recall": proportions(present, equally),
        "macro_f1": proportions(either, equally, f1_of),
        "weighted_precision": proportions(chosen, present),
        "weighted_f1": proportions(either, present, f1_of),
    }


def correlation_of_classes(totals: Totals) -> float:
    """Of several classes (Gorodkin, "Comparing two K-category assignments by a K-category correlation coefficient",
    2004); NaN if all labels, or all predictions, are of one class.
    """
    classes, (labels, predicted) = class_pairs(totals)
    weights = pair_weights(totals)[1]
    weights = weights / weights.sum()
    present, chosen = (np.bincount(index, weights, len(classes)) for index in (labels, predicted))
    product = (1 - np.sum(present**2)) * (1 - np.sum(chosen**2))
    return ratio(float(weights[labels == predicted].sum() - np.sum(present * chosen)), float(np.sqrt(product)))
