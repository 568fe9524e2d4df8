"""Metrics for a predicted number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from components.evaluation.tally import Array, Measure, Tally


class Regression(Measure):
    """Errors, and the squared correlation of labels and predictions."""

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return np.isfinite(labels)

    def sums(self, labels: Array, predictions: Array) -> Array:
        p = predictions[:, 0]
        error = p - labels
        return np.stack(
            [np.ones_like(p), labels, p, labels**2, p**2, labels * p, np.abs(error), error**2],
            axis=1,
        )

    def metrics(self, tally: Tally) -> dict[str, float]:
        n, y, p, yy, pp, yp, absolute, squared = tally.sums
        spread = (n * yy - y**2) * (n * pp - p**2)
        return {
            "mean_squared_error": float(squared / n),
            "mean_absolute_error": float(absolute / n),
            "squared_correlation": float((n * yp - y * p) ** 2 / spread) if spread > 0 else float("nan"),
        }
