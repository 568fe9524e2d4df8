"""Counts, extremes and moments of many numeric columns at once, with TFDV's results to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_INT64 = np.iinfo(np.int64)
NUMBERS = np.dtype(
    [
        ("count", np.int64),
        ("zeros", np.int64),
        ("nan", np.int64),
        ("positive_infinities", np.int64),
        ("mean", np.float64),
        ("variance", np.float64),
        ("int_min", np.int64),
        ("int_max", np.int64),
        ("float_min", np.float32),
        ("float_max", np.float32),
        ("finite_min", np.float32),
        ("finite_max", np.float32),
    ]
)
"""Of each column: the numbers, without NaN, and among them zeros and +inf; NaN; moments; extremes in the column's type,
and those of the finite floats."""
NO_NUMBERS = np.array(
    [(0, 0, 0, 0, 0, 0, _INT64.max, _INT64.min, np.inf, -np.inf, np.inf, -np.inf)], NUMBERS
)  # fmt: skip
_LOWEST = ("int_min", "float_min", "finite_min")
_HIGHEST = ("int_max", "float_max", "finite_max")
_SUMS = ("zeros", "nan", "positive_infinities")

Values = NDArray[Any]
"""int64 or float32 [values] of a column."""


def without_nan(values: Sequence[Values]) -> tuple[list[Values], NDArray[np.int64]]:
    """The columns without their NaN, and how many each had."""
    joined = np.concatenate(values)
    ends = np.cumsum([len(own) for own in values])
    missing = np.flatnonzero(np.isnan(joined))
    counts = np.bincount(np.searchsorted(ends, missing, "right"), minlength=len(values))
    kept = list(values)
    for number in np.flatnonzero(counts).tolist():
        kept[number] = values[number][~np.isnan(values[number])]
    return kept, counts


def summarized(values: Sequence[Values]) -> NDArray[np.void]:
    """The NUMBERS of columns of one type without NaN.

    Columns with the same number of values are computed as one matrix, whose rows NumPy adds up as it does one column.
    """
    summary = NO_NUMBERS.repeat(len(values))
    sizes = np.array([len(own) for own in values])
    for size in np.unique(sizes[sizes > 0]).tolist():
        chosen = np.flatnonzero(sizes == size)
        summary[chosen] = _summarized(np.stack([values[number] for number in chosen.tolist()]))
    return summary


def combine(states: NDArray[np.void], rows: NDArray[np.int64], added: NDArray[np.void]) -> None:
    """Add NUMBERS to these rows of others, each of which is named once."""
    own = states[rows]
    _combine_moments(own, added)
    for name in _SUMS:
        own[name] += added[name]
    for name in _LOWEST:
        own[name] = np.where(added[name] < own[name], added[name], own[name])
    for name in _HIGHEST:
        own[name] = np.where(added[name] > own[name], added[name], own[name])
    states[rows] = own


def _summarized(matrix: NDArray[Any]) -> NDArray[np.void]:
    """NUMBERS of [columns, values]."""
    summary = NO_NUMBERS.repeat(len(matrix))
    summary["count"] = matrix.shape[1]
    summary["zeros"] = matrix.shape[1] - np.count_nonzero(matrix, axis=1)
    numbers = matrix.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values, and squares of huge ones
        summary["mean"], summary["variance"] = numbers.mean(axis=1), numbers.var(axis=1)
    lowest, highest = matrix.min(axis=1), matrix.max(axis=1)
    if matrix.dtype.kind == "i":
        summary["int_min"], summary["int_max"] = lowest, highest
        return summary
    summary["float_min"] = summary["finite_min"] = lowest
    summary["float_max"] = summary["finite_max"] = highest
    infinite = np.flatnonzero(np.isinf(lowest) | np.isinf(highest))
    if len(infinite):
        some = matrix[infinite]
        finite = np.isfinite(some)
        summary["positive_infinities"][infinite] = np.isposinf(some).sum(axis=1)
        summary["finite_min"][infinite] = np.where(finite, some, np.inf).min(axis=1)
        summary["finite_max"][infinite] = np.where(finite, some, -np.inf).max(axis=1)
    return summary


def _combine_moments(own: NDArray[np.void], added: NDArray[np.void]) -> None:
    """Merge means and variances; the larger part comes first, as in TFDV."""
    swapped = added["count"] > own["count"]
    first, second = np.where(swapped, added, own), np.where(swapped, own, added)
    count = own["count"] + added["count"]
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = second["count"] / np.maximum(count, 1)
        difference = second["mean"] - first["mean"]
        mean = first["mean"] + ratio * difference
        spread = second["variance"] - first["variance"] + (second["mean"] - mean) * difference
        own["count"], own["mean"], own["variance"] = count, mean, first["variance"] + ratio * spread
