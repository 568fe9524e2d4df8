"""Numbers with a unit, such as `50%`, `$3.50` and `3 km`.

units_of(texts)       # {("", "%")}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

MOST_UNITS = 3
"""Different units of numbers such as `3 km` and `20 m` in one column."""
_WITH_UNIT = re.compile(
    r"(?P<before>[$€£¥₹<>~≈\s]*)[-+]?(\d[\d.,']*|\.\d+)([eE][-+]?\d+)?\s*(?P<after>[^\d\s.,;|]{0,8})"
)


def units_of(texts: Iterable[str]) -> Collection[tuple[str, str]]:
    """What is before and after the numbers; empty if not all texts are numbers with a unit, or there are many units."""
    found = [_WITH_UNIT.fullmatch(text) for text in texts]
    units = {(match["before"].strip(), match["after"]) for match in found if match}
    return units if all(found) and units != {("", "")} and len(units) <= MOST_UNITS else ()
