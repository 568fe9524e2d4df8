"""Whether the answers of two runtimes agree: TensorFlow's Python, and C++, in a process here or on a server.

largest, differing = compare(expected, found, tolerance=1e-4)       # differing: "" if they agree
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.common.utf8 import is_utf8
from headrace.components.canary.signatures import Inputs

FEW_TEXTS = 50
"""One in so many texts that a model writes may differ, or one if there are fewer (but more than one): rounding decides
between two words that are almost equally probable, and with it what follows."""
EXACT_ENOUGH = 1e-3
"""The largest tolerance at which words that are drawn are compared: above, rounding decides about many of them."""


def compare(
    expected: Inputs, found: Inputs, tolerance: float, *, generated: bool = False, drawn: bool = False
) -> tuple[float, str]:
    """The largest difference, and a sentence about an output that differs by more than the tolerance; "" if none does.

    expected: the outputs of TensorFlow's Python by name; generated: whether the model generates texts; drawn: whether
    it draws their words, of which only the number is compared if `why_not_drawn` says so.
    """
    not_drawn = why_not_drawn(tolerance, drawn=drawn)
    largest, differing = 0.0, ""
    for name, array in expected.items():
        apart = difference(array, found[name]) if name in found else math.inf
        if math.isinf(apart) and name in found:
            same_number = bool(not_drawn) and array.shape == found[name].shape and array.dtype == found[name].dtype
            if same_number or (generated and few_texts_differ(array, found[name])):
                apart = 0.0
        largest = max(largest, apart)
        if apart > tolerance and not differing:
            by = "" if math.isinf(apart) else f" by {apart:.2g}; {tolerance:g} is allowed"
            differing = f"its output {name} differs from that of TensorFlow's Python{by}"
    return largest, differing


def why_not_drawn(tolerance: float, *, drawn: bool) -> str:
    """Why words that are drawn are not compared; "" if they are, or are not drawn."""
    return "rounding decides which words it draws" if drawn and tolerance > EXACT_ENOUGH else ""


def difference(expected: NDArray[Any], found: NDArray[Any]) -> float:
    """The largest difference of two outputs, relative to the largest number; infinite if they cannot be compared."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return math.inf
    if expected.dtype == object and not all(map(is_utf8, expected.ravel())):
        return 0.0  # numbers in bytes, such as an image's, whose last digits may differ
    if not np.issubdtype(expected.dtype, np.inexact):
        return 0.0 if np.array_equal(expected, found) else math.inf
    known = np.isfinite(expected)
    if not np.array_equal(expected[~known], found[~known], equal_nan=True) or not np.isfinite(found[known]).all():
        return math.inf
    if not known.any():
        return 0.0
    largest = float(np.abs(expected[known]).max()) or 1.0
    return float(np.abs(expected[known] - found[known]).max()) / largest


def few_texts_differ(expected: NDArray[Any], found: NDArray[Any]) -> bool:
    """Whether both are texts or rows of words, [n] or [n, words], and few of several differ."""
    if expected.shape != found.shape or expected.dtype != object or found.dtype != object:
        return False
    rows = int(np.sum(np.any((expected != found).reshape(len(expected), -1), axis=1)))
    return rows <= max(1, len(expected) // FEW_TEXTS) < len(expected)
