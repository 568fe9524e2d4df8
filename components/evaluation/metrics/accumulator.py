"""Sums over examples from which metrics are computed: made for whole batches, and added up across them."""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Sequence
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

    def merge(self, others: Sequence[MetricAccumulator]) -> MetricAccumulator:
        """The total of this one and others of the same metrics. Sums are added in order."""
        each = [self, *others]
        buckets = np.concatenate([one.buckets for one in each])
        counts = np.concatenate([one.counts for one in each])
        order = np.argsort(buckets, kind="stable")  # Timsort, which merges runs that are sorted already
        buckets = buckets[order]
        first = np.flatnonzero(np.diff(buckets, prepend=buckets[:1] - 1))
        total = np.add.reduceat(counts[order], first, axis=0) if len(first) else counts
        return MetricAccumulator(functools.reduce(operator.add, [one.sums for one in each]), buckets[first], total)


class RunningTotal:
    """The accumulators of many batches, merged many at a time: merging each into a large histogram would copy it.

    Those that wait are merged when they are as large as what is merged already. So a bucket is sorted again a number
    of times that grows with the logarithm of the buckets, and memory is at most twice that of the total.
    """

    _LEAST = 256
    """Buckets, and accumulators, that wait at least."""

    def __init__(self) -> None:
        self._waiting: list[MetricAccumulator] = []
        self._merged = self._size = 0

    def add(self, accumulator: MetricAccumulator) -> None:
        """Add an accumulator, which is not copied."""
        self._waiting.append(accumulator)
        self._size += 1 + len(accumulator.buckets)
        if self._size > 2 * self._merged + self._LEAST:
            self._waiting = [self.merged()]
            self._merged = self._size = 1 + len(self._waiting[0].buckets)

    def merged(self) -> MetricAccumulator:
        """All that were added: at least one."""
        first, *others = self._waiting
        return first.merge(others) if others else first


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
        # (group, bucket) pairs as one integer, sorted by group, so that the histogram of a group is a slice of them
        least = buckets.min(initial=0)
        span = int(buckets.max(initial=0) - least) + 1
        pairs, index = np.unique(groups * span + (buckets - least), return_inverse=True)
        positives = np.bincount(index, labels > 0, len(pairs))
        counts = np.stack([np.bincount(index, minlength=len(pairs)) - positives, positives], axis=1)
        edges = np.searchsorted(pairs, np.arange(number + 1) * span)
        return [
            MetricAccumulator(row, pairs[start:end] % span + least, counts[start:end])
            for row, (start, end) in zip(sums, pairwise(edges), strict=True)
        ]
