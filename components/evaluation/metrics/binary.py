"""Metrics for two classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.limits import Proportion, Proportions
from headrace.components.evaluation.metrics import probabilities
from headrace.components.evaluation.metrics.accumulator import (
    STANDARD_ERRORS,
    Array,
    LabelMetrics,
    Linear,
    Margin,
    Totals,
)
from headrace.components.evaluation.metrics.areas import areas
from headrace.components.evaluation.metrics.classification import EPSILON, TOO_WIDE, confusion_of, entropy
from headrace.components.evaluation.metrics.decisions import at_level, decision_metrics, decision_proportions, ratio
from headrace.components.evaluation.result import Confusion, Curves, DecisionPoint
from headrace.configs.schema.metrics import AT_TARGET, METRICS, split_level, with_level

ROC_POINTS = 200
CALIBRATION_BINS = 10
DECISION_POINTS = 99
"""Thresholds at which precision and recall are shown."""


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
    def fold_width(self) -> int:
        looked_for = any(split_level(name)[0] in AT_TARGET for name in self.levels)
        return probabilities.TARGET_FOLD_WIDTH if looked_for else probabilities.AREA_FOLD_WIDTH

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

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:
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
        """Those of all but the area under the precision-recall curve, not a proportion of independent trials."""
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
        return confusion_of((0, 1), counts)


def _decision_points(totals: Totals) -> list[DecisionPoint]:
    """Precision, recall and F1 at thresholds that each let a further hundredth of the examples through."""
    negatives, positives = totals.counts[::-1].T  # from the highest predictions down
    true, false = np.cumsum(positives), np.cumsum(negatives)
    above = true + false
    shares = np.arange(1, DECISION_POINTS + 1) / (DECISION_POINTS + 1)
    at = np.unique(np.searchsorted(above, shares * above[-1]).clip(max=len(above) - 1))
    thresholds = _thresholds_below(totals.buckets[::-1])
    return [
        DecisionPoint(
            threshold=float(thresholds[index]),
            share=float(above[index] / above[-1]),
            precision=float(true[index] / above[index]),
            recall=float(true[index] / true[-1]),
            f1=float(2 * true[index] / (above[index] + true[-1])),
        )
        for index in at
        if above[index]
    ]


def _thresholds_below(buckets: NDArray[np.int64]) -> Array:
    """The middle of what lies between each of these buckets and the next one, which is lower; float64 [m].

    Decisions are for probabilities above a threshold. The least value of a bucket would leave out those that equal it,
    such as all of 0.5 or 1.
    """
    least = probabilities.least_of(buckets)
    following = np.append(probabilities.least_of(buckets[1:] + 1), 0.0)  # where the next bucket ends
    return (least + np.minimum(following, least)) / 2


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
