"""What the metrics of all labels with classes share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headrace.components.evaluation.metrics.accumulator import STANDARD_ERRORS, Array
from headrace.components.evaluation.result import Confusion

EPSILON = 1e-7
"""Probabilities are clipped to [EPSILON, 1 - EPSILON] inside logarithms, as in Keras and TFMA."""
TOO_WIDE = 0.05
"""Width of the confidence interval of an AUC or accuracy, either way, from which the examples are too few."""


def wilson_width(share: float, examples: float) -> float:
    """Half the 95% confidence interval of a share of examples (Wilson, "Probable inference, the law of succession, and
    statistical inference", 1927).
    """
    z = STANDARD_ERRORS
    spread = np.sqrt(share * (1 - share) / examples + z**2 / (4 * examples**2))
    return float(z * spread / (1 + z**2 / examples))


def entropy(counts: Array) -> float:
    """The cross-entropy of predicting the shares of the classes, in nats."""
    shares = counts[counts > 0] / counts.sum()
    return float(0.0 - np.sum(shares * np.log(shares)))  # not -0.0 for a single class


def confusion_of(classes: Sequence[int], counts: Iterable[Iterable[float]]) -> Confusion:
    """The table of a row for each class and a column for each predicted one, in the order of `classes`."""
    return Confusion(tuple(classes), tuple(tuple(map(float, row)) for row in counts))
