"""Metrics for a predicted number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.metrics.accumulator import (
    STANDARD_ERRORS,
    Array,
    LabelMetrics,
    Margin,
    MetricAccumulator,
)

TOO_WIDE = 0.25
"""Width of the confidence interval of the mean squared error, either way, as a fraction of it, from which the examples
are too few."""


@dataclass(frozen=True)
class RegressionAccumulator(MetricAccumulator):
    """Sums, and the second moments of labels and predictions about their means.

    means: float64 [2], of labels and of predictions; products: float64 [3], the sums of the products of deviations from
    the means: label and label, prediction and prediction, label and prediction.

    Plain sums of squares would lose a variance that is small compared with the mean. Two accumulators are merged by
    the update of Chan, Golub and LeVeque ("Algorithms for computing the sample variance", The American Statistician 37,
    1983).
    """

    means: Array
    products: Array

    def merge(self, others: Sequence[MetricAccumulator]) -> RegressionAccumulator:
        """As above, with the moments."""
        total = super().merge(others)
        weight, means, products = self.sums[0], self.means, self.products
        for other in others:
            weight += other.sums[0]
            share = other.sums[0] / weight if weight else 0.0
            other_means, other_products = _moments(other)
            with np.errstate(invalid="ignore"):  # an infinite mean leaves the correlation undefined
                label, prediction = difference = other_means - means
                between = (weight - other.sums[0]) * share * np.array([label**2, prediction**2, label * prediction])
                products, means = products + other_products + between, means + share * difference
        return _with_moments(total, means, products)


class RegressionMetrics(LabelMetrics):
    """Errors, and the squared correlation of labels and predictions."""

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return np.isfinite(labels)

    def sums(self, labels: Array, predictions: Array) -> Array:
        error = predictions[:, 0] - labels
        return np.stack([np.ones_like(error), np.abs(error), error**2, error**4], axis=1)

    def accumulate(
        self, labels: Array, predictions: Array, groups: NDArray[np.int64], number: int, weights: Array
    ) -> list[MetricAccumulator]:
        """Also accumulates the moments of labels and predictions."""
        plain = super().accumulate(labels, predictions, groups, number, weights)
        with np.errstate(invalid="ignore"):  # as above
            label, label_means = _deviations(labels, groups, number, weights)
            prediction, prediction_means = _deviations(predictions[:, 0], groups, number, weights)
            each = (label**2, prediction**2, label * prediction)
        means = np.stack([label_means, prediction_means], axis=1)
        products = np.stack([np.bincount(groups, product * weights, number) for product in each], axis=1)
        return [_with_moments(one, *moments) for one, *moments in zip(plain, means, products, strict=True)]

    def metrics(self, accumulator: MetricAccumulator) -> dict[str, float]:
        n, absolute, squared, _ = accumulator.sums
        labels, predictions, both = _moments(accumulator)[1]
        variances = labels * predictions
        return {
            "mean_squared_error": float(squared / n),
            "mean_absolute_error": float(absolute / n),
            "squared_correlation": float(both**2 / variances) if variances > 0 else float("nan"),
        }

    def margin(self, accumulator: MetricAccumulator) -> Margin | None:
        """Of the mean squared error, from the variance of the squared errors."""
        n, _, squared, fourth = accumulator.sums
        if not np.isfinite(fourth):
            return None
        mean = squared / n
        variance = max(fourth / n - mean**2, 0) / accumulator.effective_examples
        width = STANDARD_ERRORS * float(np.sqrt(variance))
        return Margin("mean_squared_error", float(mean), width, TOO_WIDE * float(mean))

    def constant(self, accumulator: MetricAccumulator) -> dict[str, float]:
        """The variance of the labels: the squared error of predicting their mean."""
        return {"mean_squared_error": float(_moments(accumulator)[1][0] / accumulator.sums[0])}


def _moments(accumulator: MetricAccumulator) -> tuple[Array, Array]:
    """Means and products."""
    if not isinstance(accumulator, RegressionAccumulator):
        raise TypeError(f"moments need a RegressionAccumulator, not a {type(accumulator).__name__}")
    return accumulator.means, accumulator.products


def _with_moments(plain: MetricAccumulator, means: Array, products: Array) -> RegressionAccumulator:
    return RegressionAccumulator(
        plain.sums, plain.buckets, plain.counts, plain.examples, plain.squares, means, products
    )


def _deviations(values: Array, groups: NDArray[np.int64], number: int, weights: Array) -> tuple[Array, Array]:
    """Each value's deviation from the weighted mean of its group, and the means."""
    total = np.bincount(groups, weights, number)
    means = np.bincount(groups, values * weights, number) / np.where(total, total, 1)
    return values - means[groups], means
