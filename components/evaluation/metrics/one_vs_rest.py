"""The areas under the ROC curves of several classes, each against all others, and their means.

Every example is in the histogram of each class, so this costs classes times as much as that of two classes, and is
measured only if it is asked for. A class that all examples belong to, or none, has no area and is in no mean. The means
equal those of scikit-learn's `roc_auc_score` with `multi_class="ovr"`, and TFMA's averages of AUC over the classes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.limits import Proportion, Proportions
from headrace.components.evaluation.metrics.accumulator import Array, Totals
from headrace.components.evaluation.metrics.areas import CLASS_SPAN, areas_of_classes, class_buckets
from headrace.components.evaluation.metrics.by_class import class_weights, scores_by_class
from headrace.components.evaluation.result import ClassMetrics

MACRO, WEIGHTED = "macro_auc", "weighted_auc"
_BELOW = 1 << 40
"""More than all buckets of the largest number of classes. They are below 0, where pairs of classes have none."""


class OneVsRest(NamedTuple):
    """areas: of each class, NaN if it has none; positives, negatives: the weights of the examples, [classes] each."""

    areas: Array
    positives: Array
    negatives: Array

    @classmethod
    def of(cls, totals: Totals) -> OneVsRest:
        """From totals with the buckets of `buckets_of`."""
        end = np.searchsorted(totals.buckets, 0)
        buckets, counts = totals.buckets[:end] + _BELOW, totals.counts[:end]
        classes = buckets // CLASS_SPAN
        number = int(classes.max(initial=-1)) + 1
        negatives, positives = (np.bincount(classes, column, number).astype(np.float64) for column in counts.T)
        return cls(areas_of_classes(buckets, counts, number), positives, negatives)

    @property
    def _defined(self) -> NDArray[np.bool_]:
        return np.isfinite(self.areas)

    def averages(self) -> dict[str, float]:
        """The mean over the classes, and that in which each counts as often as it is the label."""
        areas, weights = self.areas[self._defined], self.positives[self._defined]
        if not len(areas):
            return {MACRO: np.nan, WEIGHTED: np.nan}
        return {MACRO: float(areas.mean()), WEIGHTED: float(np.average(areas, weights=weights))}

    def proportions(self, totals: Totals) -> Proportions:
        """Of both averages."""
        pairs = [
            (totals.trials(min(positive, negative)), float(positive))
            for positive, negative in zip(self.positives[self._defined], self.negatives[self._defined], strict=True)
        ]
        return {
            MACRO: [Proportion(trials) for trials, _ in pairs],
            WEIGHTED: [Proportion(trials, weight) for trials, weight in pairs],
        }


def buckets_of(predictions: Array) -> NDArray[np.int64]:
    """The bucket of each example in the histogram of each class, [n, classes], all below 0."""
    return class_buckets(predictions) - _BELOW


def classes_of(totals: Totals) -> tuple[ClassMetrics, ...]:
    """How well each class is told from the others, and predicted."""
    found = OneVsRest.of(totals)
    scores = np.zeros((3, len(found.areas)))  # of classes that are neither labels nor predictions: 0, as elsewhere
    scores[:, class_weights(totals)[0]] = scores_by_class(totals)[:3]
    shares = found.positives / (found.positives + found.negatives)
    return tuple(
        ClassMetrics(number, float(share), float(area) if np.isfinite(area) else None, *map(float, of_class))
        for number, (share, area, of_class) in enumerate(zip(shares, found.areas, scores.T, strict=True))
    )
