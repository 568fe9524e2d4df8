"""The histogram of the probabilities of two classes: which bucket one is in, and what lies in a bucket.

Buckets are equal steps of log-odds, cut at the steps of a grid over the probabilities themselves: near 0 and 1, where
probabilities lie when classes are rare, they are fine relative to the probability, and the counts between two steps of
the grid, such as those that TFMA plots, are exact.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from headrace.components.evaluation.metrics.accumulator import Array, Linear
from headrace.components.evaluation.metrics.areas import log_odds

RESOLUTION = 2048
"""Steps for each unit of log-odds: one is 0.00012 wide at a probability of 0.5, and near 0 it is 0.05% of the
probability. The AUC of 15,000 examples or more differs by about a millionth from that of the probabilities themselves.
"""
AREA_FOLD_WIDTH, TARGET_FOLD_WIDTH = 32, 8
"""Buckets that are one where folds are told apart, for the areas under curves and for the best threshold for a target.

In simulations of 2,000 to a million examples, the standard error of an AUC was that of the probabilities to 0.3%. That
of the precision at a recall of 0.9 was it to 10%, but 3.5 times as large with AREA_FOLD_WIDTH.
"""
GRID = 10_000
"""Steps of the grid from 0 to 1: the buckets of TFMA's histogram."""


def buckets_of(probabilities: Array) -> NDArray[np.int64]:
    """The bucket of each probability. Both terms rise with it, so no two pairs of them have the same sum."""
    steps = np.floor(RESOLUTION * log_odds(probabilities)) + _grid_steps(probabilities)
    return steps.astype(np.int64)


def least_of(buckets: NDArray[np.int64]) -> Array:
    grid = _grid_of(buckets)
    return np.maximum(_sigmoid((buckets - grid) / RESOLUTION), grid / GRID)


def middle_of(buckets: NDArray[np.int64]) -> Array:
    grid = _grid_of(buckets)
    return np.asarray(np.clip(_sigmoid((buckets - grid + 0.5) / RESOLUTION), grid / GRID, (grid + 1) / GRID))


def linear(buckets: NDArray[np.int64], counts: Array) -> Linear:
    """The steps of the grid. counts: the weight of the negatives and of the positives in each bucket, [m, 2]."""
    grid, weights = _grid_of(buckets), counts.sum(axis=1)
    columns = counts[:, 0], counts[:, 1], weights * middle_of(buckets).clip(max=1)
    return Linear(*(np.bincount(grid, column, GRID + 1).astype(np.float64) for column in columns))


def _grid_steps(probabilities: Array) -> Array:
    return np.floor(GRID * np.clip(np.nan_to_num(probabilities), 0, 1))


def _grid_of(buckets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The step of the grid that each bucket is in, from 0 to GRID."""
    return np.searchsorted(_first_buckets(), buckets, side="right") - 1


@functools.cache
def _first_buckets() -> NDArray[np.int64]:
    """The first bucket of each step of the grid. The product of GRID and a step's start may be just below the step."""
    steps = np.arange(GRID + 1)
    return steps + np.floor(RESOLUTION * log_odds(steps / GRID)).astype(np.int64)


def _sigmoid(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-values)))
