"""Values, shares and numbers as the comments of `headrace init` show them."""

from __future__ import annotations

import math

from headrace.common.figures import figure
from headrace.common.names import one_line
from headrace.components.inference.facts import ColumnFacts


def missing_share(facts: ColumnFacts) -> str:
    """`; 12% missing`, or nothing."""
    return f"; {percent(facts.missing / facts.rows)} missing" if facts.missing else ""


def percent(share: float) -> str:
    """`12%`, or `0.3%`; never 0% or 100% for a share that is neither."""
    if 0 < share < 0.001:
        return "less than 0.1%"
    if 0.999 < share < 1:
        return "more than 99.9%"
    return f"{100 * share:.0f}%" if 0.1 <= share <= 0.9 or share in {0.0, 1.0} else f"{100 * share:.1f}%"


def show(value: object) -> str:
    """A value in a comment: short, on one line."""
    if isinstance(value, float):
        return rounded(value, 6)
    text = one_line(str(value))
    return text if len(text) <= 40 else f"{text[:37]}..."


def show_of(facts: ColumnFacts, value: object) -> str:
    """A value of this column in a comment, as the data has it."""
    return show(bool(value)).lower() if facts.of_booleans else show(value)


def rounded(value: float, digits: int) -> str:
    """A number in a comment: `13,230.5`, but `2026`, which may be a year."""
    text = figure(value, digits) if math.isfinite(value) else str(value)
    return text if abs(value) >= 10_000 else text.replace(",", "")
