"""From values to places on a chart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """A linear map from low..high to start..end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def padded(values: Iterable[float], share: float = 0.08) -> tuple[float, float]:
    """The range of the values and a little more on both sides; never empty."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    pad = (high - low) * share if high > low else abs(high) * 0.1 or 1.0
    return low - pad, high + pad


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Round values between low and high, about so many."""
    rough = (high - low) / about
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = magnitude * next(step for step in _STEPS if step * magnitude >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def whole_ticks(low: float, high: float, about: int = 6) -> list[float]:
    """The same in whole numbers, for counts such as epochs."""
    return [tick for tick in ticks(low, high, about) if tick == round(tick)] or [math.ceil(low)]
