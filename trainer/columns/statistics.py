"""What the features need to know of the whole train split, found in one pass over it.

All moments are one analyzer over one matrix, and all quantiles with the same number of buckets another: Transform
spends its time per analyzer, not per number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_transform import analyzer_nodes, analyzers

Floats = npt.NDArray[np.float64]

QUANTILE_ERROR = 0.001
"""Largest error of a quantile's rank, as a share of the examples; small data comes out exact."""


class Moments(NamedTuple):
    """A wish for mean, standard deviation, least and greatest of a data column: float64 [4]."""

    key: str


class Quantiles(NamedTuple):
    """A wish for the boundaries that cut a data column into `buckets` parts of equal size: float64 [buckets - 1]."""

    key: str
    buckets: int


Statistic = Moments | Quantiles


def analyze(wishes: Iterable[Statistic], numbers: Mapping[str, tf.Tensor]) -> dict[Statistic, tf.Tensor]:
    """The wished statistics of float64 [batch] tensors over the train split; NaN counts as missing.

    Of a column without any value the moments and quantiles are 0.
    """
    found: dict[Statistic, tf.Tensor] = {}
    distinct = list(dict.fromkeys(wishes))
    moments = [wish for wish in distinct if isinstance(wish, Moments)]
    if moments:
        found.update(zip(moments, _moments([numbers[wish.key] for wish in moments]), strict=True))
    for buckets in dict.fromkeys(wish.buckets for wish in distinct if isinstance(wish, Quantiles)):
        same = [wish for wish in distinct if isinstance(wish, Quantiles) and wish.buckets == buckets]
        found.update(zip(same, _quantiles([numbers[wish.key] for wish in same], buckets), strict=True))
    return found


def _moments(columns: list[tf.Tensor]) -> list[tf.Tensor]:
    combiner = MomentsCombiner(len(columns))
    (node,) = analyzers.apply_cacheable_combine_operation(combiner, tf.stack(columns, axis=1))
    return list(tf.unstack(analyzer_nodes.wrap_as_tensor(node), num=len(columns)))


def _quantiles(columns: list[tf.Tensor], buckets: int) -> list[tf.Tensor]:
    boundaries = tft.quantiles(tf.stack(columns, axis=1), buckets, QUANTILE_ERROR, reduce_instance_dims=False)
    return list(tf.unstack(tf.cast(boundaries, tf.float64), num=len(columns)))


class MomentsCombiner(analyzer_nodes.Combiner):
    """Mean, standard deviation (of the population), least and greatest of each column of a [batch, columns] matrix.

    Partial results are [count, mean, sum of squared deviations, least, greatest] and are merged as in Chan, Golub and
    LeVeque 1979, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", so that a large mean does
    not drown a small deviation.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def create_accumulator(self) -> Floats:
        """[5, columns] of nothing seen."""
        empty = np.zeros((5, self._columns))
        empty[3], empty[4] = np.inf, -np.inf
        return empty

    def add_input(self, accumulator: Floats, batch_values: list[Floats]) -> Floats:
        """Fold a batch in."""
        return merge_moments(accumulator, batch_moments(batch_values[0]))

    def merge_accumulators(self, accumulators: Iterable[Floats]) -> Floats:
        """One partial result of many."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged = merge_moments(merged, np.asarray(accumulator))
        return merged

    def extract_output(self, accumulator: Floats) -> list[Floats]:
        """[columns, 4]: mean, standard deviation, least, greatest."""
        count, mean, squares, least, greatest = np.asarray(accumulator)
        deviation = np.sqrt(squares / np.maximum(count, 1))
        seen = np.stack([mean, deviation, least, greatest], axis=1)
        return [np.where(count[:, np.newaxis] > 0, seen, 0.0)]

    def output_tensor_infos(self) -> list[analyzer_nodes.TensorInfo]:
        """One float64 tensor."""
        return [analyzer_nodes.TensorInfo(tf.float64, [self._columns, 4], None)]


def batch_moments(batch: Floats) -> Floats:
    """[5, columns]: count, mean, sum of squared deviations, least and greatest of [batch, columns]; NaN is left out."""
    present = ~np.isnan(batch)
    count = present.sum(axis=0)
    mean = np.where(present, batch, 0.0).sum(axis=0) / np.maximum(count, 1)
    squares = (np.where(present, batch - mean, 0.0) ** 2).sum(axis=0)
    least = np.where(present, batch, np.inf).min(axis=0, initial=np.inf)
    greatest = np.where(present, batch, -np.inf).max(axis=0, initial=-np.inf)
    return np.stack([count, mean, squares, least, greatest])


def merge_moments(a: Floats, b: Floats) -> Floats:
    """The moments of two disjoint parts together."""
    count = a[0] + b[0]
    share = b[0] / np.maximum(count, 1)
    difference = b[1] - a[1]
    mean = a[1] + difference * share
    squares = a[2] + b[2] + difference**2 * a[0] * share
    return np.stack([count, mean, squares, np.minimum(a[3], b[3]), np.maximum(a[4], b[4])])
