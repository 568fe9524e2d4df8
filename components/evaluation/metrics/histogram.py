"""Histograms with sparse buckets: those of whole batches, group by group, and the sums of many of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Histogram(NamedTuple):
    """The weights of the examples in each bucket that has any, in two columns.

    buckets: int64 [m], rising; counts: float64 [m, 2].
    """

    buckets: NDArray[np.int64]
    counts: NDArray[np.float64]

    @classmethod
    def empty(cls) -> Histogram:
        """One without buckets."""
        return cls(np.zeros(0, np.int64), np.zeros((0, 2)))

    @classmethod
    def of_groups(
        cls,
        buckets: NDArray[np.int64],
        second: NDArray[np.bool_],
        weights: NDArray[np.float64],
        groups: NDArray[np.int64],
        number: int,
    ) -> list[Histogram]:
        """The histogram of each of `number` groups. All [n]: second, whether an example counts in the second column;
        groups: of each example.
        """
        least = buckets.min(initial=0)
        span = int(buckets.max(initial=0) - least) + 1
        # (group, bucket) as one integer, sorted by group, so that the histogram of a group is a slice of them
        found, index = np.unique(groups * span + (buckets - least), return_inverse=True)
        columns = [np.bincount(index, weights * which, len(found)) for which in (~second, second)]
        counts = np.stack(columns, axis=1).astype(np.float64)
        edges = np.searchsorted(found, np.arange(number + 1) * span)
        keys = found % span + least
        return [cls(keys[start:end], counts[start:end]) for start, end in pairwise(edges)]

    @classmethod
    def sum_of(cls, each: Sequence[Histogram]) -> Histogram:
        """All of them as one. The counts of a bucket are added in order."""
        buckets = np.concatenate([one.buckets for one in each])
        order = np.argsort(buckets, kind="stable")  # Timsort, which merges runs that are sorted already
        return cls(buckets[order], np.concatenate([one.counts for one in each])[order]).distinct()

    def distinct(self) -> Histogram:
        """With each bucket once, from buckets that do not fall."""
        if not len(self.buckets):
            return self
        first = np.flatnonzero(np.diff(self.buckets, prepend=self.buckets[0] - 1))
        return Histogram(self.buckets[first], np.add.reduceat(self.counts, first, axis=0))
