"""Whether the state of a training is one to go on from: an infinite number in it spoils all steps that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def finite(tree: Mapping[str, Any]) -> bool:
    """Whether all weights in what `captured` took are numbers, and all that the optimizer keeps of them."""
    return all_finite(tree.get("model", [])) and optimizer_finite(tree.get("optimizer", []))


def optimizer_finite(values: Iterable[np.ndarray]) -> bool:
    """The latter alone. What is a single number may be infinite by intent, as the lowest loss so far is at first."""
    return all_finite(value for value in values if value.ndim)


def all_finite(values: Iterable[np.ndarray]) -> bool:
    """Whether none is NaN or infinite."""
    floats = (value for value in values if value.dtype.kind in "fV")  # V: bfloat16, which NumPy does not know
    return all(bool(np.isfinite(value.astype(np.float32)).all()) for value in floats)
