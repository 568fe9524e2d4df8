"""Sums over examples that metrics are computed from: made for whole batches at once, and added up across them."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation_result import Curves

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tally:
    """What is known of some examples.

    sums: float64 [k], as the measure defines; buckets: int64 [m], rising, of predictions; counts: float64 [m, 2], the
    negatives and positives in each. Without a histogram, m is 0.
    """

    sums: Array
    buckets: NDArray[np.int64]
    counts: Array

    def __add__(self, other: Tally) -> Tally:
        both = np.concatenate([self.buckets, other.buckets])
        buckets, place = np.unique(both, return_inverse=True)
        counts = np.zeros((len(buckets), 2))
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return Tally(self.sums + other.sums, buckets, counts)


class Measure(abc.ABC):
    """The metrics of one kind of label."""

    @abc.abstractmethod
    def usable(self, labels: Array) -> NDArray[np.bool_]:
        """Which labels [n] can be judged by."""

    @abc.abstractmethod
    def sums(self, labels: Array, predictions: Array) -> Array:
        """What each example adds, [n, k], from labels [n] and predictions [n, outputs]; the first column is ones."""

    def buckets(self, predictions: Array) -> NDArray[np.int64] | None:  # noqa: ARG002
        """The histogram's bucket of each prediction; None if the measure needs no histogram."""
        return None

    @abc.abstractmethod
    def metrics(self, tally: Tally) -> dict[str, float]:
        """Values by the name in the config; NaN where one is not defined."""

    def curves(self, tally: Tally) -> Curves | None:  # noqa: ARG002
        """What the report draws."""
        return None

    def tally(self, labels: Array, predictions: Array, groups: NDArray[np.int64], number: int) -> list[Tally]:
        """One tally for each of `number` groups of examples; groups [n] says which one each belongs to."""
        each = self.sums(labels, predictions)
        sums = np.stack([np.bincount(groups, column, number) for column in each.T], axis=1)
        buckets = self.buckets(predictions)
        if buckets is None:
            return [Tally(row, np.zeros(0, np.int64), np.zeros((0, 2))) for row in sums]
        unique, place = np.unique(np.stack([groups, buckets]), axis=1, return_inverse=True)
        positives = np.bincount(place.ravel(), labels, unique.shape[1])
        counts = np.stack([np.bincount(place.ravel(), minlength=unique.shape[1]) - positives, positives], axis=1)
        edges = np.searchsorted(unique[0], np.arange(number + 1))
        return [
            Tally(row, unique[1, start:end], counts[start:end])
            for row, (start, end) in zip(sums, pairwise(edges), strict=True)
        ]
