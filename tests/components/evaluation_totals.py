"""The totals that metrics are computed of, of whole arrays."""

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.metrics import LABEL_METRICS
from headrace.components.evaluation.metrics.accumulator import ExampleGroups, Totals

Array = NDArray[np.float64]


def totals_of(kind: str, labels: Array, predictions: Array, parts: int = 1) -> Totals:
    """Of all examples, accumulated in several parts."""
    groups = [np.zeros(len(part), np.int64) for part in np.array_split(labels, parts)]
    pieces = zip(np.array_split(labels, parts), np.array_split(predictions, parts), groups, strict=True)
    first, *others = (
        LABEL_METRICS[kind].accumulate(ExampleGroups(y, p, g, 1, np.ones(len(y))))[0] for y, p, g in pieces
    )
    return first.merge(others).total()
