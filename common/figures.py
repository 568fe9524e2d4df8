"""Numbers as people write them, in messages, comments and pages."""

from __future__ import annotations

import math

LEAST, MOST = 1e-6, 1e21
"""Smaller and larger numbers have a power of ten, as their zeros would have to be counted: where JavaScript has one."""


def figure(value: float, digits: int = 4) -> str:
    """A number with at least `digits` significant digits and thousands separators: `13,230.5`, `0.0012`, `nan`."""
    if value == 0:
        return "0"
    if not LEAST <= abs(value) < MOST:  # infinity and NaN too
        return f"{value:.{digits}g}"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plural(number: int, noun: str) -> str:
    """A count of things: `1 column`, `13,230 columns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
