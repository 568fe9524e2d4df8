"""Histograms of predicted numbers in equal steps, whose width is found as they are accumulated.

The range of the predictions is known only at the end. A width is a power of two, so two steps make exactly one of the
next width, and a histogram is made coarser as its range grows. Its steps do not depend on the order of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MOST_STEPS = 1024
"""Steps between the least and the greatest prediction, at most; at least about half as many if predictions differ."""
DIGITS = 40
"""Binary digits of the largest prediction that a step tells apart at least, so that its number is exact."""
_LEAST = -1000
"""The exponent of the width for predictions of 0."""


class PredictedSteps(NamedTuple):
    """What lies in each step that has any examples.

    exponent: the steps are 2 ** exponent wide; steps: int64 [m], rising: step k has the predictions from k times the
    width to below the next; sums: float64 [m, 3], the weighted labels, the weighted predictions and the weights.
    """

    exponent: int
    steps: NDArray[np.int64]
    sums: Array

    @classmethod
    def of_groups(
        cls, labels: Array, predictions: Array, weights: Array, groups: NDArray[np.int64], number: int
    ) -> list[Self]:
        """Those of each of `number` groups, from arrays [n]. Predictions that are no finite numbers are left out."""
        kept = np.isfinite(predictions)
        labels, predictions, weights = labels[kept], predictions[kept], weights[kept]
        groups = groups[kept]
        exponents = _exponents(predictions, groups, number)
        steps = _steps(predictions, exponents[groups])
        order = np.lexsort((steps, groups))
        groups, steps = groups[order], steps[order]
        first = np.flatnonzero((np.diff(groups, prepend=-1) != 0) | (np.diff(steps, prepend=0) != 0))
        columns = np.stack([labels * weights, predictions * weights, weights], axis=1)[order]
        sums = np.add.reduceat(columns, first, axis=0) if len(first) else columns
        groups, steps = groups[first], steps[first]
        edges = np.searchsorted(groups, np.arange(number + 1))
        return [
            cls(int(exponent), steps[start:end], sums[start:end])
            for exponent, (start, end) in zip(exponents, pairwise(edges), strict=True)
        ]

    @classmethod
    def sum_of(cls, each: Sequence[Self]) -> Self:
        """All of them as one."""
        exponent = max(one.exponent for one in each)
        parts = [one.coarser(exponent - one.exponent) for one in each]
        steps = np.concatenate([one.steps for one in parts])
        found = cls(exponent, steps, np.concatenate([one.sums for one in parts])).distinct()
        return found.of_at_most(MOST_STEPS)

    def of_at_most(self, number: int) -> Self:
        """With a range of so many steps at most."""
        doublings = 0
        while len(self.steps) and (self.steps[-1] >> doublings) - (self.steps[0] >> doublings) >= number:
            doublings += 1
        return self.coarser(doublings)

    def coarser(self, doublings: int) -> Self:
        """With steps that are so many doublings wider."""
        if not doublings:
            return self
        wider = self.steps >> min(doublings, 63)
        return self._replace(exponent=self.exponent + doublings, steps=wider).distinct()

    def distinct(self) -> Self:
        """With each step once, in order."""
        steps, index = np.unique(self.steps, return_inverse=True)
        sums = [np.bincount(index, column, len(steps)) for column in self.sums.T]
        return self._replace(steps=steps, sums=np.stack(sums, axis=1).astype(np.float64))


def _exponents(predictions: Array, groups: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """The least exponent for each group with which its range has MOST_STEPS at most, [number]."""
    low, high = np.full(number, np.inf), np.full(number, -np.inf)
    np.minimum.at(low, groups, predictions)
    np.maximum.at(high, groups, predictions)
    some = low <= high
    low, high = np.where(some, low, 0.0), np.where(some, high, 0.0)
    largest = np.maximum(np.abs(low), np.abs(high))
    found = np.where(largest > 0, np.maximum(np.frexp(largest)[1] - DIGITS, _LEAST), _LEAST).astype(np.int64)
    while (wide := _steps(high, found) - _steps(low, found) >= MOST_STEPS).any():
        found += wide
    return found


def _steps(values: Array, exponents: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.floor(np.ldexp(values, -exponents)).astype(np.int64)
