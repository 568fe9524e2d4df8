"""Sums over examples from which metrics are computed: made for whole batches, and added up across them."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.result import Curves

Array = NDArray[np.float64]
STANDARD_ERRORS = 1.96
"""Half the width of a 95 % confidence interval."""


@dataclass(frozen=True)
class MetricAccumulator:
    """Sums over some examples, and a histogram of their predictions or classes.

    sums: float64 [k], as the metrics define them; buckets: int64 [m], rising; counts: float64 [m, 2], the examples in
    each bucket whose label is 0, and the others. m is 0 for metrics that need no histogram.
    """

    sums: Array
    buckets: NDArray[np.int64]
    counts: Array

    def __add__(self, other: MetricAccumulator) -> MetricAccumulator:
        concatenated = np.concatenate([self.buckets, other.buckets])
        buckets, index = np.unique(concatenated, return_inverse=True)
        counts = np.zeros((len(buckets), 2))
        np.add.at(counts, index, np.concatenate([self.counts, other.counts]))
        return MetricAccumulator(self.sums + other.sums, buckets, counts)


class Margin(NamedTuple):
    """The 95 % confidence interval of a metric as value ± width, and the width at which it is too wide to rely on."""

    metric: str
    value: float
    width: float
    too_wide: float


class LabelMetrics(abc.ABC):
    """The metrics of one kind of label."""

    @abc.abstractmethod
    def usable(self, labels: Array) -> NDArray[np.bool_]:
        """Which labels [n] an example can be evaluated with."""

    @abc.abstractmethod
    def sums(self, labels: Array, predictions: Array) -> Array:
        """What each example adds to the sums, [n, k], from labels [n] and predictions [n, outputs].

        The first column is ones, so that its sum is the number of examples.
        """

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64] | None:  # noqa: ARG002
        """The histogram bucket of each example; None if these metrics need no histogram."""
        return None

    @abc.abstractmethod
    def metrics(self, accumulator: MetricAccumulator) -> dict[str, float]:
        """Values by the metric's name in the config; NaN where a metric is not defined."""

    @abc.abstractmethod
    def constant(self, accumulator: MetricAccumulator) -> dict[str, float]:
        """What a model would reach that predicts the same for all of these examples, and the best for each metric.

        Returns values by the metric's name, and only metrics for which such a model is a yardstick.
        """

    @abc.abstractmethod
    def margin(self, accumulator: MetricAccumulator) -> Margin | None:
        """The uncertainty of the main metric; None if it has no value."""

    def curves(self, accumulator: MetricAccumulator) -> Curves | None:  # noqa: ARG002
        """The curves that the report draws, if any."""
        return None

    def accumulate(
        self, labels: Array, predictions: Array, groups: NDArray[np.int64], number: int
    ) -> list[MetricAccumulator]:
        """One accumulator for each of `number` groups of examples. groups: the group of each example, [n]."""
        each = self.sums(labels, predictions)
        sums = np.stack([np.bincount(groups, column, number) for column in each.T], axis=1)
        buckets = self.buckets(labels, predictions)
        if buckets is None:
            return [MetricAccumulator(row, np.zeros(0, np.int64), np.zeros((0, 2))) for row in sums]
        # (group, bucket) pairs sorted by group, so that the histogram of a group is a slice of them
        unique, index = np.unique(np.stack([groups, buckets]), axis=1, return_inverse=True)
        positives = np.bincount(index.ravel(), labels > 0, unique.shape[1])
        counts = np.stack([np.bincount(index.ravel(), minlength=unique.shape[1]) - positives, positives], axis=1)
        edges = np.searchsorted(unique[0], np.arange(number + 1))
        return [
            MetricAccumulator(row, unique[1, start:end], counts[start:end])
            for row, (start, end) in zip(sums, pairwise(edges), strict=True)
        ]
