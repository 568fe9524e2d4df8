"""Metrics for two classes, from the probability of the second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.tally import Array, Measure, Tally
from headrace.components.evaluation_result import Curves
from headrace.configs.evaluate import METRICS

EPSILON = 1e-7
"""Probabilities are kept this far from 0 and 1 inside logarithms, as Keras and TFMA do."""
RESOLUTION = 16384
"""Histogram buckets for each unit of the log-odds: 0.000015 wide at a probability of 0.5, and as fine in relation to it
where probabilities are near 0 or 1, as they are when classes are rare."""
POINTS = 200
"""Points kept of the ROC curve."""
BINS = 10


class Binary(Measure):
    """Accuracy, precision and recall count a prediction above 0.5 as positive, exactly. The areas under the curves are
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

    def buckets(self, predictions: Array) -> NDArray[np.int64]:
        p = np.clip(np.nan_to_num(predictions[:, 0]), 1e-15, 1 - 1e-15)
        return np.floor(RESOLUTION * (np.log(p) - np.log1p(-p))).astype(np.int64)

    def metrics(self, tally: Tally) -> dict[str, float]:
        examples, positives, probability, loss, above, true_positives = tally.sums
        if not np.isfinite(probability):
            return dict.fromkeys(METRICS["binary"], np.nan)
        right = true_positives + (examples - positives) - (above - true_positives)
        area, area_precision_recall = _areas(tally.counts)
        return {
            "auc": area,
            "auc_precision_recall": area_precision_recall,
            "binary_accuracy": _ratio(right, examples),
            "binary_crossentropy": _ratio(loss, examples),
            "calibration": _ratio(probability, positives),
            "precision": _ratio(true_positives, above),
            "recall": _ratio(true_positives, positives),
        }

    def curves(self, tally: Tally) -> Curves | None:
        negatives, positives = tally.counts[::-1].T
        if not (negatives.sum() and positives.sum() and np.isfinite(tally.sums).all()):
            return None
        false_rate = np.concatenate([[0], np.cumsum(negatives) / negatives.sum()])
        true_rate = np.concatenate([[0], np.cumsum(positives) / positives.sum()])
        at = np.unique(np.searchsorted(false_rate + true_rate, np.linspace(0, 2, POINTS)).clip(max=len(false_rate) - 1))
        roc = tuple((float(x), float(y)) for x, y in zip(false_rate[at], true_rate[at], strict=True))
        return Curves(roc, tuple(_calibration(tally)))


def _areas(counts: Array) -> tuple[float, float]:
    """Under the ROC curve (trapezoids) and the precision-recall curve (interpolated as in Davis and Goadrich, "The
    relationship between precision-recall and ROC curves", 2006).
    """
    negatives, positives = counts[::-1].T  # from the highest predictions down
    if not (negatives.sum() and positives.sum()):
        return np.nan, np.nan
    true = np.concatenate([[0], np.cumsum(positives)])
    false = np.concatenate([[0], np.cumsum(negatives)])
    area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2) / (true[-1] * false[-1]))
    found = true + false
    slope = positives / np.diff(found)
    intercept = true[1:] - slope * found[1:]
    growth = np.divide(found[1:], found[:-1], out=np.ones_like(slope), where=found[:-1] > 0)
    return area, float(np.sum(slope * (positives + intercept * np.log(growth))) / true[-1])


def _calibration(tally: Tally) -> list[tuple[float, float, int]]:
    predictions = 1 / (1 + np.exp(-(tally.buckets + 0.5) / RESOLUTION))
    bins = np.minimum((predictions * BINS).astype(int), BINS - 1)
    examples = np.bincount(bins, tally.counts.sum(axis=1), BINS)
    sums = np.bincount(bins, predictions * tally.counts.sum(axis=1), BINS)
    positives = np.bincount(bins, tally.counts[:, 1], BINS)
    return [
        (float(total / n), float(share / n), int(n))
        for total, share, n in zip(sums, positives, examples, strict=True)
        if n
    ]


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else float("nan")
