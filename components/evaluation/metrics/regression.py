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
        examples, means, products = self.sums[0], self.means, self.products
        for other in others:
            examples += other.sums[0]
            share = other.sums[0] / max(examples, 1.0)
            other_means, other_products = _moments(other)
            with np.errstate(invalid="ignore"):  # an infinite mean leaves the correlation undefined
                label, prediction = difference = other_means - means
                between = (examples - other.sums[0]) * share * np.array([label**2, prediction**2, label * prediction])
                products, means = products + other_products + between, means + share * difference
        return RegressionAccumulator(total.sums, total.buckets, total.counts, means, products)


class RegressionMetrics(LabelMetrics):
    """Errors, and the squared correlation of labels and predictions."""

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return np.isfinite(labels)

    def sums(self, labels: Array, predictions: Array) -> Array:
        error = predictions[:, 0] - labels
        return np.stack([np.ones_like(error), np.abs(error), error**2, error**4], axis=1)

    def accumulate(
        self, labels: Array, predictions: Array, groups: NDArray[np.int64], number: int
    ) -> list[MetricAccumulator]:
        """Also accumulates the moments of labels and predictions."""
        plain = super().accumulate(labels, predictions, groups, number)
        with np.errstate(invalid="ignore"):  # as above
            label, label_means = _deviations(labels, groups, number)
            prediction, prediction_means = _deviations(predictions[:, 0], groups, number)
            each = (label**2, prediction**2, label * prediction)
        means = np.stack([label_means, prediction_means], axis=1)
        products = np.stack([np.bincount(groups, product, number) for product in each], axis=1)
        return [
            RegressionAccumulator(one.sums, one.buckets, one.counts, *moments)
            for one, *moments in zip(plain, means, products, strict=True)
        ]

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
        width = STANDARD_ERRORS * float(np.sqrt(max(fourth / n - mean**2, 0) / n))
        return Margin("mean_squared_error", float(mean), width, TOO_WIDE * float(mean))

    def constant(self, accumulator: MetricAccumulator) -> dict[str, float]:
        """The variance of the labels: the squared error of predicting their mean."""
        return {"mean_squared_error": float(_moments(accumulator)[1][0] / accumulator.sums[0])}


def _moments(accumulator: MetricAccumulator) -> tuple[Array, Array]:
    """Means and products."""
    if not isinstance(accumulator, RegressionAccumulator):
        raise TypeError(f"moments need a RegressionAccumulator, not a {type(accumulator).__name__}")
    return accumulator.means, accumulator.products


def _deviations(values: Array, groups: NDArray[np.int64], number: int) -> tuple[Array, Array]:
    """Each value's deviation from the mean of its group, and the means."""
    means = np.bincount(groups, values, number) / np.maximum(np.bincount(groups, minlength=number), 1)
    return values - means[groups], means
