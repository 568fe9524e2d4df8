"""How many rows went into and came out of a component, from what its examples say of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from headrace.pipeline.local.wire import Stored


def rows_in(inputs: Mapping[str, list[Stored]], splits: list[str] | None) -> int | None:
    """Rows of the examples among the inputs, of those splits or of all; None if there are no examples."""
    return _total((stored for group in inputs.values() for stored in group), splits)


def rows_out(outputs: Mapping[str, Stored]) -> int | None:
    """Rows of the examples among the outputs; None if there are none."""
    return _total(outputs.values(), None)


def _total(artifacts: Iterable[Stored], splits: list[str] | None) -> int | None:
    counts = [
        stored.properties["rows"]
        for stored in artifacts
        if stored.type.name == "Examples" and "rows" in stored.properties
    ]
    if not counts:
        return None
    rows = [json.loads(str(count)) for count in counts]
    return sum(number for by_split in rows for split, number in by_split.items() if splits is None or split in splits)
