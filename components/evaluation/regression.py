"""Metrics for a predicted number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.tally import Array, Measure, Tally


@dataclass(frozen=True)
class Centred(Tally):
    """A tally with the means of labels and predictions, float64 [2], and the sums of the products of their deviations
    from these: label and label, prediction and prediction, label and prediction, float64 [3].

    Plain sums of squares would lose a spread that is small beside the mean. Two of these add up by the update of Chan,
    Golub and LeVeque ("Algorithms for computing the sample variance", The American Statistician 37, 1983).
    """

    means: Array
    products: Array

    def __add__(self, other: Tally) -> Centred:
        if not isinstance(other, Centred):
            return NotImplemented
        both = super().__add__(other)
        share = other.sums[0] / max(both.sums[0], 1.0)
        with np.errstate(invalid="ignore"):  # a mean may be infinite, and then no correlation has a value
            label, prediction = apart = other.means - self.means
            between = self.sums[0] * share * np.array([label**2, prediction**2, label * prediction])
            products = self.products + other.products + between
            return Centred(both.sums, both.buckets, both.counts, self.means + share * apart, products)


class Regression(Measure):
    """Errors, and the squared correlation of labels and predictions."""

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return np.isfinite(labels)

    def sums(self, labels: Array, predictions: Array) -> Array:
        error = predictions[:, 0] - labels
        return np.stack([np.ones_like(error), np.abs(error), error**2], axis=1)

    def tally(self, labels: Array, predictions: Array, groups: NDArray[np.int64], number: int) -> list[Tally]:
        """With the moments of labels and predictions."""
        plain = super().tally(labels, predictions, groups, number)
        with np.errstate(invalid="ignore"):  # as above
            label, label_means = _deviations(labels, groups, number)
            prediction, prediction_means = _deviations(predictions[:, 0], groups, number)
            each = (label**2, prediction**2, label * prediction)
        means = np.stack([label_means, prediction_means], axis=1)
        products = np.stack([np.bincount(groups, product, number) for product in each], axis=1)
        return [
            Centred(one.sums, one.buckets, one.counts, *own) for one, *own in zip(plain, means, products, strict=True)
        ]

    def metrics(self, tally: Tally) -> dict[str, float]:
        if not isinstance(tally, Centred):
            raise TypeError(f"{type(tally).__name__} lacks what a correlation is computed from")
        n, absolute, squared = tally.sums
        labels, predictions, both = tally.products
        spread = labels * predictions
        return {
            "mean_squared_error": float(squared / n),
            "mean_absolute_error": float(absolute / n),
            "squared_correlation": float(both**2 / spread) if spread > 0 else float("nan"),
        }


def _deviations(values: Array, groups: NDArray[np.int64], number: int) -> tuple[Array, Array]:
    """Each value's deviation from the mean of its group, and these means."""
    means = np.bincount(groups, values, number) / np.maximum(np.bincount(groups, minlength=number), 1)
    return values - means[groups], means
