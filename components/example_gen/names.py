"""Names of columns, of which there may be tens of thousands: nothing here looks at pairs of them."""

from __future__ import annotations

from collections.abc import Iterable


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that stands there for the second time; None where all are different."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
