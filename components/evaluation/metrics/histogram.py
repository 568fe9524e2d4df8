"""Histograms with sparse buckets: those of whole batches, group by group, and the sums of many of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Histogram(NamedTuple):
    """The weights of the examples in each bucket that has any, in two columns.

    buckets: int64 [m], rising; counts: float64 [m, 2]. Those of a packed one are int32 and uint32.
    """

    buckets: NDArray[np.integer]
    counts: NDArray[np.float64] | NDArray[np.uint32]

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
        whole = cls(found % span + least, np.stack(columns, axis=1).astype(np.float64)).packed
        edges = np.searchsorted(found, np.arange(number + 1) * span)
        return [cls(whole.buckets[start:end], whole.counts[start:end]) for start, end in pairwise(edges)]

    @classmethod
    def sum_of(cls, each: Sequence[Histogram]) -> Histogram:
        """All of them as one. The counts of a bucket are added in order."""
        buckets = np.concatenate([one.buckets for one in each], dtype=np.int64)
        order = np.argsort(buckets, kind="stable")  # Timsort, which merges runs that are sorted already
        counts = np.concatenate([one.counts for one in each], dtype=np.float64)
        return cls(buckets[order], counts[order]).distinct()

    @property
    def packed(self) -> Histogram:
        """The same in half the memory, if the weights are whole numbers and all of it fits into 32 bits."""
        with np.errstate(invalid="ignore"):
            buckets, counts = self.buckets.astype(np.int32), self.counts.astype(np.uint32)
        same = np.array_equal(buckets, self.buckets) and np.array_equal(counts, self.counts)
        return Histogram(buckets, counts) if same else self

    @property
    def unpacked(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self.buckets.astype(np.int64, copy=False), self.counts.astype(np.float64, copy=False)

    def distinct(self) -> Histogram:
        """With each bucket once, from buckets that do not fall."""
        if not len(self.buckets):
            return self
        first = np.flatnonzero(np.diff(self.buckets, prepend=self.buckets[0] - 1))
        return Histogram(self.buckets[first], np.add.reduceat(self.counts, first, axis=0))
