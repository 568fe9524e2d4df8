"""Sums over examples from which metrics are computed: made for whole batches, and added up across them.

Each example counts as often as its weight says, which is 1 if the data has no weights. The examples are divided into
FOLDS, whose sums stay apart: what a metric would be without one of them shows how certain it is (intervals.py).
"""

from __future__ import annotations

import abc
import functools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.limits import Proportions
from headrace.components.evaluation.metrics.histogram import Histogram
from headrace.components.evaluation.metrics.steps import PredictedSteps
from headrace.components.evaluation.result import ClassMetrics, Confusion, Curves

Array = NDArray[np.float64]
FOLDS = 20
"""As many as TFMA's jackknife has samples."""
_ROUNDING = 1e-6
"""How far sums over the predictions of one model may be apart, as a fraction, because devices add in any order."""
STANDARD_ERRORS = 1.96
"""Half the width of a 95% confidence interval."""


class ExampleGroups(NamedTuple):
    """Examples to accumulate, and which of `number` groups each of them is in.

    labels: [n] or [n, classes]; predictions: [n, outputs]; groups, folds: of each example, [n], folds below FOLDS, None
    if all examples are in the first; weights: above 0, [n].
    """

    labels: Array
    predictions: Array
    groups: NDArray[np.int64]
    number: int
    weights: Array
    folds: NDArray[np.int64] | None = None

    @property
    def cells(self) -> NDArray[np.int64]:
        """The group and the fold of each example as one number below `number * FOLDS`: [n]."""
        return self.groups * FOLDS + (0 if self.folds is None else self.folds)


class Linear(NamedTuple):
    """What lies in each step of the grid of `probabilities`, [GRID + 1] each; the last is of a probability of 1.

    negatives, positives: the weight of the examples of both classes; predictions: the weighted sum of their
    probabilities, each to 0.00025 of itself.
    """

    negatives: Array
    positives: Array
    predictions: Array


@dataclass(frozen=True)
class Totals:
    """Weighted sums over some examples, and a histogram of their predictions or classes.

    sums: float64 [k], as the metrics define them, the first of which is the sum of the weights; buckets: int64 [m],
    rising; counts: float64 [m, 2], the weight of the examples in each bucket whose label is 0, and of the others, or
    what else `LabelMetrics.columns` tells apart (m is 0 for metrics that need no histogram); examples: their number;
    squares: the sum of the squared weights.
    """

    sums: Array
    buckets: NDArray[np.int64]
    counts: Array
    examples: float
    squares: float

    @property
    def effective_examples(self) -> float:
        """The number of equally weighted examples whose mean is as uncertain (Kish, "Survey Sampling", 1965)."""
        return float(self.sums[0] ** 2 / self.squares)

    def trials(self, weight: float) -> float:
        """The proportion of `effective_examples` that examples with this weight in total make up."""
        return float(weight) * float(self.sums[0] / self.squares)


@dataclass(frozen=True)
class MetricAccumulator:
    """The totals of each fold.

    sums: float64 [FOLDS, k]; histogram: of all folds; by_fold: of the coarser buckets of `LabelMetrics.fold_width`,
    each as `bucket * FOLDS + fold`; examples, squares: float64 [FOLDS].
    """

    sums: Array
    histogram: Histogram
    by_fold: Histogram
    examples: Array
    squares: Array

    @classmethod
    def of_count(cls, examples: float) -> MetricAccumulator:
        """One that only counts examples."""
        number = np.eye(1, FOLDS)[0] * examples
        return cls(np.zeros((FOLDS, 0)), Histogram.empty(), Histogram.empty(), number, np.zeros(FOLDS))

    @property
    def size(self) -> int:
        """The number of buckets."""
        return len(self.histogram.buckets) + len(self.by_fold.buckets)

    def merge(self, others: Sequence[MetricAccumulator]) -> MetricAccumulator:
        """The total of this one and others of the same metrics. Sums are added in order."""
        each = [self, *others]
        return MetricAccumulator(
            functools.reduce(operator.add, [one.sums for one in each]),
            Histogram.sum_of([one.histogram for one in each]).packed,
            Histogram.sum_of([one.by_fold for one in each]).packed,
            functools.reduce(operator.add, [one.examples for one in each]),
            functools.reduce(operator.add, [one.squares for one in each]),
        )

    def equals(self, other: MetricAccumulator) -> bool:
        """Whether all sums of all folds are the same, up to rounding: those of the losses differ if models do."""
        return self.sums.shape == other.sums.shape and np.allclose(
            self.sums, other.sums, rtol=_ROUNDING, atol=0, equal_nan=True
        )

    @property
    def folds(self) -> list[int]:
        return np.flatnonzero(self.examples).tolist()

    def total(self, *, without: int | None = None) -> Totals:
        """The totals of all folds; or, with the coarser buckets, of all but one."""
        rest = np.arange(FOLDS) != without
        return Totals(
            self.sums[rest].sum(axis=0),
            *(self.histogram.unpacked if without is None else self._without(without)),
            float(self.examples[rest].sum()),
            float(self.squares[rest].sum()),
        )

    def _without(self, fold: int) -> tuple[NDArray[np.int64], Array]:
        buckets, counts = self.by_fold.unpacked
        rest = buckets % FOLDS != fold
        return Histogram(buckets[rest] // FOLDS, counts[rest]).distinct().unpacked


class RunningTotal:
    """The accumulators of many batches, merged many at a time: merging each into a large histogram would copy it.

    Those that wait are merged when they are half as large as what is merged already. So a bucket is sorted again a
    number of times that grows with the logarithm of the buckets, and memory is less than twice that of the total.
    """

    _LEAST = 256
    """Buckets that wait at least."""
    _OWN = 200
    """Packed buckets that take as much memory as the rest of an accumulator."""

    def __init__(self) -> None:
        self._waiting: list[MetricAccumulator] = []
        self._merged = self._size = 0

    def add(self, accumulator: MetricAccumulator) -> None:
        """Add an accumulator, which is not copied."""
        self._waiting.append(accumulator)
        self._size += self._OWN + accumulator.size
        if self._size > 1.5 * self._merged + self._LEAST:
            self._waiting = [self.merged()]
            self._merged = self._size = self._OWN + self._waiting[0].size

    def merged(self) -> MetricAccumulator:
        """All that were added: at least one."""
        first, *others = self._waiting
        return first.merge(others) if others else first


class Margin(NamedTuple):
    """The 95% confidence interval of a metric as value ± width, and the width at which it is too wide to rely on.

    rarer: examples of the rarer of two classes; of a few, an interval says little, since it may be narrow by chance.
    """

    metric: str
    value: float
    width: float
    too_wide: float
    rarer: float = math.inf


class LabelMetrics(abc.ABC):
    """The metrics of one kind of label. Labels are [n]; [n, classes] of 0 and 1 for multilabel; [n, words] for text."""

    label_rank = 1
    """Dimensions of the labels."""

    @property
    def fold_width(self) -> int:
        """Neighboring buckets that are one where folds are told apart: enough for what a metric is without a fold, and
        it limits the memory that the folds take.
        """
        return 1

    @abc.abstractmethod
    def usable(self, labels: Array) -> NDArray[np.bool_]:
        """Which labels [n] an example can be evaluated with."""

    @abc.abstractmethod
    def losses(self, labels: Array, predictions: Array) -> Array:
        """The loss of each example, [n], whose mean is the metric in LOSSES."""

    @abc.abstractmethod
    def predicted(self, predictions: Array) -> Array:
        """What is predicted for each example, [n]: the number of a class, or the value; in the shape of the labels."""

    @abc.abstractmethod
    def sums(self, labels: Array, predictions: Array) -> Array:
        """What each example adds to the sums, [n, k], from labels [n] and predictions [n, outputs].

        The first column is ones, so that its sum is that of the weights. Weights are applied to what is returned.
        """

    def buckets(self, labels: Array, predictions: Array) -> NDArray[np.int64] | None:
        """The histogram buckets of each example, [n] or [n, several]; None if these metrics need no histogram."""
        return None

    def columns(self, labels: Array, predictions: Array) -> Array:
        """Which of the two counts of a bucket an example adds to, in the shape of `buckets`: the second if it is above
        0.
        """
        return labels

    @abc.abstractmethod
    def metrics(self, totals: Totals) -> dict[str, float]:
        """Values by the metric's name in the config; NaN where a metric is not defined."""

    @abc.abstractmethod
    def constant(self, totals: Totals) -> dict[str, float]:
        """What a model would reach that predicts the same for all of these examples, and the best for each metric.

        Returns values by the metric's name, and only metrics for which such a model is a yardstick.
        """

    @abc.abstractmethod
    def margin(self, totals: Totals) -> Margin | None:
        """The uncertainty of the main metric; None if it has no value."""

    def curves(self, totals: Totals) -> Curves | None:
        """The curves that the report draws, if any."""
        return None

    def confusion(self, totals: Totals) -> Confusion | None:
        """How often each class is predicted for each class; None unless the labels are classes, and not too many."""
        return None

    def linear(self, totals: Totals) -> Linear | None:
        """The histogram of the probabilities of two classes, in equal steps; None for other labels."""
        return None

    def predicted_steps(self, totals: Totals) -> PredictedSteps | None:
        """The histogram of predicted numbers, in equal steps; None for other labels."""
        return None

    def classes(self, totals: Totals) -> tuple[ClassMetrics, ...]:
        """How well each class is told from the others, if that is measured."""
        return ()

    def proportions(self, totals: Totals) -> Proportions:
        """The shares that metrics are made of, for the intervals of those that are 1 or 0 (see limits.py)."""
        return {}

    def accumulate(self, examples: ExampleGroups) -> list[MetricAccumulator]:
        """One accumulator for each group."""
        labels, predictions, _, number, weights, _ = examples
        cells, shape = examples.cells, (number, FOLDS)
        each = self.sums(labels, predictions)
        sums = [np.bincount(cells, column * weights, number * FOLDS).reshape(shape) for column in each.T]
        counts = np.bincount(cells, minlength=number * FOLDS).reshape(shape).astype(np.float64)
        squares = np.bincount(cells, weights**2, number * FOLDS).reshape(shape).astype(np.float64)
        return [
            MetricAccumulator(row, *both, n, square)
            for row, both, n, square in zip(
                np.stack(sums, axis=2), self._histograms(examples), counts, squares, strict=True
            )
        ]

    def _histograms(self, examples: ExampleGroups) -> Iterable[tuple[Histogram, Histogram]]:
        """The histogram of each group, and that by fold."""
        labels, predictions, groups, number, weights, _ = examples
        buckets = self.buckets(labels, predictions)
        if buckets is None:
            return [(Histogram.empty(), Histogram.empty())] * number
        per_example = max(buckets.size // max(len(groups), 1), 1)
        groups, folds = np.repeat(groups, per_example), np.repeat(examples.cells % FOLDS, per_example)
        weights = np.repeat(weights, per_example)
        buckets, second = buckets.reshape(-1), self.columns(labels, predictions).reshape(-1) > 0
        return zip(
            *(
                Histogram.of_groups(keys, second, weights, groups, number)
                for keys in (buckets, buckets // self.fold_width * self.fold_width * FOLDS + folds)
            ),
            strict=True,
        )
