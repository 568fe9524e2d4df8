"""Histograms of quantiles, with TFDV's counts to the last bit, in a few NumPy calls each.

TFDV computes them bucket by bucket in Python: some 5 ms for each numeric column, which is most of the time that the
statistics of a wide table take.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tensorflow_metadata.proto.v0.statistics_pb2 import Histogram

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quantiles:
    """Quantiles in ascending order, and how many values are at most each: float64 [quantiles]."""

    values: Floats
    cumulative: Floats

    def every(self, step: int) -> Quantiles:
        """The first quantile and every step-th after it."""
        return Quantiles(self.values[::step], self.cumulative[::step])

    def median(self) -> float:
        """The middle quantile, or the mean of the two in the middle."""
        middle = len(self.values) // 2
        if len(self.values) % 2:
            return float(self.values[middle])
        return float((self.values[middle - 1] + self.values[middle]) / 2)

    def counts(self) -> Floats:
        """The number of values between each quantile and the next: float64 [quantiles - 1].

        What is between equal quantiles, and what equals the first one, is spread evenly over their buckets.
        """
        counts, high = np.diff(self.cumulative), self.values[1:]
        if not len(counts):
            return counts
        starts = np.flatnonzero(np.concatenate([[True], high[1:] != high[:-1]]))
        lengths = np.diff(starts, append=len(high))
        if len(starts) < len(high):
            counts = np.repeat(np.add.reduceat(counts, starts) / lengths, lengths)
        same = int(lengths[0]) if self.values[0] == high[0] else 1
        counts[:same] += self.cumulative[0] / same
        return counts


@dataclass(frozen=True)
class Range:
    """The extremes of the finite values, in the type of the column, and the number of values that are +inf."""

    low: np.generic
    high: np.generic
    positive_infinities: int


def quantiles_histogram(quantiles: Quantiles) -> Histogram:
    """A bucket between each quantile and the next."""
    histogram = Histogram(type=Histogram.QUANTILES)
    _add(histogram, quantiles.values[:-1], quantiles.values[1:], quantiles.counts())
    return histogram


def constant_histogram(value: float, number: float, buckets: int) -> Histogram:
    """What `quantiles_histogram` makes of a value that occurs a number of times."""
    histogram = Histogram(type=Histogram.QUANTILES)
    for _ in range(buckets):
        histogram.buckets.add(low_value=value, high_value=value, sample_count=number / buckets)
    return histogram


def equal_width_histogram(quantiles: Quantiles, finite: Range, buckets: int) -> Histogram:
    """Buckets of equal width between the extremes; values are taken to be spread evenly between two quantiles.

    Infinite values have a bucket of their own. The histogram has no buckets if their width overflows.
    """
    histogram = Histogram(type=Histogram.STANDARD)
    if not np.isfinite(finite.low) and not np.isfinite(finite.high):
        _add(histogram, np.array([finite.low]), np.array([finite.high]), quantiles.cumulative[-1:])
        return histogram
    quantiles, negative = _without_infinities(quantiles, finite)
    bounds = np.array([finite.low, finite.high], np.result_type(finite.low, np.float32))
    if finite.low != finite.high:
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = np.linspace(bounds[0], bounds[1], buckets + 1)
    if not np.isfinite(bounds).all():
        return histogram
    if negative:
        histogram.buckets.add(low_value=-np.inf, high_value=-np.inf, sample_count=negative)
    _add(histogram, bounds[:-1], bounds[1:], _interpolated(quantiles, bounds))
    if finite.positive_infinities:
        histogram.buckets.add(low_value=np.inf, high_value=np.inf, sample_count=finite.positive_infinities)
    return histogram


def _add(histogram: Histogram, low: NDArray[np.floating], high: NDArray[np.floating], counts: Floats) -> None:
    for bounds in zip(low.tolist(), high.tolist(), counts.tolist(), strict=True):
        histogram.buckets.add(low_value=bounds[0], high_value=bounds[1], sample_count=bounds[2])


def _without_infinities(quantiles: Quantiles, finite: Range) -> tuple[Quantiles, float]:
    """The quantiles of the finite values, and the number of values that are -inf."""
    values, cumulative, negative = quantiles.values, quantiles.cumulative, 0.0
    if first := int(np.searchsorted(values, -np.inf, "right")):
        negative = float(cumulative[first - 1])
        values, cumulative = values[first:], cumulative[first:] - negative
    if finite.positive_infinities:
        number, end = cumulative[-1] - finite.positive_infinities, int(np.searchsorted(values, np.inf, "left"))
        values, cumulative = np.append(values[:end], finite.high), np.append(cumulative[:end], number)
    return Quantiles(values, cumulative), negative


def _interpolated(quantiles: Quantiles, bounds: NDArray[np.floating]) -> Floats:
    """The number of values between each bound and the next.

    TFDV adds up Python's floats and, from the first bucket on that is only partly between two bounds, numbers of the
    bounds' type: float32 for float columns. The sums here are rounded as its sums are.
    """
    low, high = (part.astype(bounds.dtype) for part in (quantiles.values[:-1], quantiles.values[1:]))
    first = np.searchsorted(high, bounds[:-1], "left")
    sizes = np.maximum(np.searchsorted(low, bounds[1:], "right") - first, 0)
    ends = np.cumsum(sizes)
    bucket = np.arange(ends[-1]) + np.repeat(first - ends + sizes, sizes)
    left, right = np.repeat(bounds[:-1], sizes), np.repeat(bounds[1:], sizes)
    low, high, counts = low[bucket], high[bucket], quantiles.counts()[bucket]
    below = (low == left) & (high == left)  # has been counted between the bounds before, if there are some
    below[: sizes[0]] = False
    whole = (left <= low) & (right >= high)
    partly = ~whole
    partly[below] = whole[below] = False
    shares = whole.astype(bounds.dtype)
    shares[partly] = (np.minimum(high, right) - np.maximum(low, left))[partly] / (high - low)[partly]
    terms, exact = shares * counts.astype(bounds.dtype), np.where(whole, counts, 0.0)
    totals = np.zeros(len(sizes))
    for number, (begin, end) in enumerate(zip((ends - sizes).tolist(), ends.tolist(), strict=True)):
        rounded = begin + int(partly[begin:end].argmax()) if partly[begin:end].any() else end
        totals[number] = _sum(exact[begin:rounded])
        if rounded < end:
            totals[number] = _sum(np.append(bounds.dtype.type(totals[number]), terms[rounded:end]))
    return totals


def _sum(terms: NDArray[np.floating]) -> np.floating:
    """The sum from left to right, as Python adds up."""
    return np.add.accumulate(terms)[-1] if len(terms) else np.float64(0)
