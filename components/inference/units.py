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
    units = set[tuple[str, str]]()
    for text in texts:
        match = _WITH_UNIT.fullmatch(text)
        if match is None:
            return ()
        units.add((match["before"].strip(), match["after"]))
        if len(units) > MOST_UNITS:
            return ()
    return units if units != {("", "")} else ()
