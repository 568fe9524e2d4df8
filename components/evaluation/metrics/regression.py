"""Metrics for a predicted number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.metrics.accumulator import (
    FOLDS,
    STANDARD_ERRORS,
    Array,
    ExampleGroups,
    LabelMetrics,
    Margin,
    MetricAccumulator,
    Totals,
)
from headrace.components.evaluation.metrics.steps import PredictedSteps
from headrace.components.evaluation.result import Curves

TOO_WIDE = 0.25
"""Width of the confidence interval of the mean squared error, either way, as a fraction of it, from which the examples
are too few."""
RESOLUTION = 64
"""Buckets of errors for each doubling of their size: a bucket is 1.1% wide."""
SMALLEST = 2.0**-100
"""Errors below it count as none."""
EPSILON = 1e-7
"""The least label that an error is divided by, and the least value in a logarithm, as in Keras and TFMA."""
EQUAL = 1e-26
"""Labels whose variance is below this share of their mean's square are all the same: it is the rounding of the mean."""
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Of the errors, for the report."""


@dataclass(frozen=True)
class RegressionTotals(Totals):
    """Sums, the second moments of labels and predictions about their means, and what is predicted, of all folds.

    means: float64 [2], of labels and of predictions; products: float64 [3], the sums of the products of deviations from
    the means: label and label, prediction and prediction, label and prediction.
    """

    means: Array
    products: Array
    predicted: PredictedSteps


@dataclass(frozen=True)
class RegressionAccumulator(MetricAccumulator):
    """The totals of each fold. means: float64 [FOLDS, 2]; products: float64 [FOLDS, 3]; predicted: of all folds.

    Plain sums of squares would lose a variance that is small compared with the mean. Moments are merged by the formula
    of Chan, Golub and LeVeque ("Algorithms for computing the sample variance", The American Statistician 37, 1983).
    """

    means: Array
    products: Array
    predicted: PredictedSteps

    @property
    def size(self) -> int:
        """As above, with the steps."""
        return super().size + len(self.predicted.steps)

    def merge(self, others: Sequence[MetricAccumulator]) -> RegressionAccumulator:
        """As above, with the moments."""
        each = [self, *map(_of_numbers, others)]
        weights, means, products = (np.stack(parts) for parts in zip(*map(_moments, each), strict=True))
        merged, moments = super().merge(others), _merged(weights, means, products)
        predicted = PredictedSteps.sum_of([one.predicted for one in each])
        return RegressionAccumulator(**vars(merged), means=moments[0], products=moments[1], predicted=predicted)

    def total(self, *, without: int | None = None) -> RegressionTotals:
        """As above, with the moments."""
        rest = np.arange(FOLDS) != without
        means, products = _merged(self.sums[rest, 0], self.means[rest], self.products[rest])
        whole = super().total(without=without)
        return RegressionTotals(**vars(whole), means=means, products=products, predicted=self.predicted)


class RegressionMetrics(LabelMetrics):
    """Errors, and how much of the labels' variance is explained."""

    def usable(self, labels: Array) -> NDArray[np.bool_]:
        return np.isfinite(labels)

    def losses(self, labels: Array, predictions: Array) -> Array:
        squared: Array = (predictions[:, 0] - labels) ** 2
        return squared

    def predicted(self, predictions: Array) -> Array:
        return predictions[:, 0]

    def sums(self, labels: Array, predictions: Array) -> Array:
        error = predictions[:, 0] - labels
        relative = 100 * np.abs(error) / np.maximum(np.abs(labels), EPSILON)
        by_ratio = np.log1p(np.maximum(predictions[:, 0], EPSILON)) - np.log1p(np.maximum(labels, EPSILON))
        columns = [np.ones_like(error), np.abs(error), error**2, error**4, relative, by_ratio**2]
        return np.stack(columns, axis=1)

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64]:
        """The error's sign and logarithm."""
        error = np.nan_to_num(predictions[:, 0] - labels)
        size = np.floor(RESOLUTION * np.log2(np.maximum(np.abs(error), SMALLEST) / SMALLEST)).astype(np.int64)
        return np.where(error < 0, -size, size)

    def accumulate(self, examples: ExampleGroups) -> list[MetricAccumulator]:
        """Also accumulates the moments of labels and predictions, and what is predicted."""
        plain, cells = super().accumulate(examples), examples.cells
        labels, predictions, _, number, weights, _ = examples
        size = number * FOLDS
        with np.errstate(invalid="ignore"):  # an infinite mean leaves the correlation undefined
            label, label_means = _deviations(labels, cells, size, weights)
            prediction, prediction_means = _deviations(predictions[:, 0], cells, size, weights)
            each = (label**2, prediction**2, label * prediction)
        means = np.stack([label_means, prediction_means], axis=1).reshape(number, FOLDS, 2)
        products = np.stack(
            [np.bincount(cells, product * weights, size).astype(np.float64) for product in each], axis=1
        )
        steps = PredictedSteps.of_groups(labels, predictions[:, 0], weights, examples.groups, number)
        return [
            RegressionAccumulator(**vars(one), means=mean, products=product, predicted=predicted)
            for one, mean, product, predicted in zip(
                plain, means, products.reshape(number, FOLDS, 3), steps, strict=True
            )
        ]

    def metrics(self, totals: Totals) -> dict[str, float]:
        n, absolute, squared, _, relative, squared_logarithmic = totals.sums
        labels, predictions, both = _of_regression(totals).products
        variances = labels * predictions
        return {
            "mean_squared_error": float(squared / n),
            "root_mean_squared_error": float(np.sqrt(squared / n)),
            "mean_absolute_error": float(absolute / n),
            "r_squared": float(1 - squared / labels) if labels > 0 else float("nan"),
            "squared_correlation": float(both**2 / variances) if variances > 0 else float("nan"),
            "mean_absolute_percentage_error": float(relative / n),
            "mean_squared_logarithmic_error": float(squared_logarithmic / n),
            "median_absolute_error": _median_size(totals) if np.isfinite(absolute) else float("nan"),
        }

    def margin(self, totals: Totals) -> Margin | None:
        """Of the mean squared error, from the variance of the squared errors."""
        n, _, squared, fourth = totals.sums[:4]
        if not np.isfinite(fourth):
            return None
        mean = squared / n
        variance = max(fourth / n - mean**2, 0) / totals.effective_examples
        width = STANDARD_ERRORS * float(np.sqrt(variance))
        return Margin("mean_squared_error", float(mean), width, TOO_WIDE * float(mean))

    def constant(self, totals: Totals) -> dict[str, float]:
        """The variance of the labels: the squared error of predicting their mean."""
        moments = _of_regression(totals)
        variance = float(moments.products[0] / totals.sums[0])
        if variance < EQUAL * moments.means[0] ** 2:
            variance = 0.0
        return {
            "mean_squared_error": variance,
            "root_mean_squared_error": float(np.sqrt(variance)),
            "r_squared": 0.0,
        }

    def predicted_steps(self, totals: Totals) -> PredictedSteps:
        return _of_regression(totals).predicted

    def curves(self, totals: Totals) -> Curves | None:
        """The quantiles of the errors."""
        weights = totals.counts.sum(axis=1)
        if not np.isfinite(totals.sums).all() or not weights.sum():
            return None
        errors = np.sign(totals.buckets) * _sizes(totals.buckets)
        at = np.searchsorted(np.cumsum(weights), np.array(QUANTILES) * weights.sum()).clip(max=len(errors) - 1)
        return Curves(errors=tuple((share, float(errors[index])) for share, index in zip(QUANTILES, at, strict=True)))


def _sizes(buckets: NDArray[np.int64]) -> Array:
    """The size of the errors in each of these buckets: that in its middle, and 0 for those below SMALLEST."""
    return np.where(buckets == 0, 0.0, SMALLEST * 2 ** ((np.abs(buckets) + 0.5) / RESOLUTION))


def _median_size(totals: Totals) -> float:
    """The median of the absolute errors, to a bucket: that which half of the weight does not exceed.

    Errors are taken to be evenly distributed in their bucket, on the scale of logarithms. So the median without a fold
    differs from that of all examples also where both lie in one bucket.
    """
    sizes, index = np.unique(np.abs(totals.buckets), return_inverse=True)
    each = np.bincount(index, totals.counts.sum(axis=1))
    weights = np.cumsum(each)
    middle = int(np.searchsorted(weights, weights[-1] / 2))
    if sizes[middle] == 0:
        return 0.0
    above = (weights[middle] - weights[-1] / 2) / each[middle]
    return float(SMALLEST * 2 ** ((sizes[middle] + 1 - above) / RESOLUTION))


def _moments(accumulator: RegressionAccumulator) -> tuple[Array, Array, Array]:
    return accumulator.sums[:, 0], accumulator.means, accumulator.products


def _of_numbers(accumulator: MetricAccumulator) -> RegressionAccumulator:
    if not isinstance(accumulator, RegressionAccumulator):
        raise TypeError(f"moments need a RegressionAccumulator, not a {type(accumulator).__name__}")
    return accumulator


def _of_regression(totals: Totals) -> RegressionTotals:
    if not isinstance(totals, RegressionTotals):
        raise TypeError(f"moments need RegressionTotals, not {type(totals).__name__}")
    return totals


def _merged(weights: Array, means: Array, products: Array) -> tuple[Array, Array]:
    """Means and products over the first axis of weights [n, ...], means [n, ..., 2] and products [n, ..., 3]."""
    total = weights.sum(axis=0)
    shares = weights / np.where(total, total, 1)
    with np.errstate(invalid="ignore"):  # as above
        # From one of the means, because a sum of shares times large means would round as much as they do.
        near = np.take_along_axis(means, weights.argmax(axis=0)[None, ..., None], axis=0)[0]
        apart = np.where(weights[..., None] > 0, means - near, 0)
        merged = near + (shares[..., None] * apart).sum(axis=0)
        label, prediction = np.moveaxis(means - merged, -1, 0)
        between = weights[..., None] * np.stack([label**2, prediction**2, label * prediction], axis=-1)
    return merged, (products + between).sum(axis=0)


def _deviations(values: Array, cells: NDArray[np.int64], number: int, weights: Array) -> tuple[Array, Array]:
    """Each value's deviation from the weighted mean of its cell, and the means."""
    total = np.bincount(cells, weights, number)
    means = np.bincount(cells, values * weights, number) / np.where(total, total, 1)
    return values - means[cells], means
