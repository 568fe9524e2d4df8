"""Areas under the ROC and the precision-recall curve, of two classes, and of each of several against the others.

The curves are those of a histogram over the log-odds of the predicted probabilities: near 0 and 1, where probabilities
lie when classes are rare, its buckets are as fine relative to the probability as in the middle.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.metrics.accumulator import Array

RESOLUTION = 2048
"""Histogram buckets of a class for each unit of log-odds, at most: a bucket is 0.00012 wide at a probability of 0.5."""
BUDGET = 1 << 16
"""Buckets of all classes together for each unit of log-odds, at most: 1,000 classes need no more memory than 32. Theirs
are 0.004 wide at a probability of 0.5."""
FOLD_WIDTH = 8
"""Buckets of a class that are one where folds are told apart, which is a divisor of CLASS_SPAN."""
CLASS_SPAN = 1 << 19
"""More than the buckets of a class. `class * CLASS_SPAN + bucket` is that of a pair of an example and a class."""
MIDDLE = CLASS_SPAN // 2
"""The bucket of a probability of 0.5."""
LEAST = 1e-15
"""Probabilities are clipped to [LEAST, 1 - LEAST]."""


def log_odds(probabilities: Array) -> Array:
    """Of probabilities, which may be 0, 1 or NaN (taken for 0)."""
    p = np.clip(np.nan_to_num(probabilities), LEAST, 1 - LEAST)
    return np.asarray(np.log(p) - np.log1p(-p))


def class_buckets(probabilities: Array) -> NDArray[np.int64]:
    """The bucket of each pair of an example and a class, [n, classes], from the probabilities [n, classes]."""
    classes = probabilities.shape[1]
    resolution = max(min(RESOLUTION, BUDGET // classes), 1)
    buckets = np.floor(resolution * log_odds(probabilities)).astype(np.int64)
    return buckets + MIDDLE + CLASS_SPAN * np.arange(classes)


def areas_of_classes(buckets: NDArray[np.int64], counts: Array, number: int) -> Array:
    """The area under the ROC curve of each of `number` classes; NaN if all examples belong to it, or none.

    buckets: of `class_buckets`, [m], rising; counts: the weight of the examples in each that do not belong to the
    class, and of those that do, [m, 2].
    """
    edges = np.searchsorted(buckets, CLASS_SPAN * np.arange(number + 1))
    return np.array([areas(counts[start:end])[0] for start, end in pairwise(edges)])


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
