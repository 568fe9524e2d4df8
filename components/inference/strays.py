"""Values of a label that hardly any row has: mistyped ones, or words for a missing one, which become classes.

stray_values(facts)                                     # ["maybe"]
stray_note(facts, column, has_null_values=True)         # '"maybe" is in 1 of 10,000 rows, row 8,001; ...'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.figures import plural
from headrace.common.names import join_names
from headrace.components.inference.columns import find_separator
from headrace.components.inference.comments import show
from headrace.components.inference.facts import ColumnFacts

STRAY_ROWS, STRAY_SHARE = 2, 0.001
"""Rows that all stray values have together at most, and the share of the rows that they may have if that is more."""
ENOUGH_ROWS = 50
"""Rows that each of the other values has at least."""


def stray_values(facts: ColumnFacts) -> list[Any]:
    """The stray values, the rarest last; none where the others are not at least two."""
    separated = facts.kind == "string" and facts.distinct > 2 and find_separator(facts) is not None
    if facts.is_list or facts.scalar == "bytes" or separated or facts.distinct < 3:
        return []
    by_count = [*facts.by_count()]
    counts = pc.cumulative_sum(pa.array([count for _, count in reversed(by_count)])).to_pylist()
    strays = sum(count <= max(STRAY_ROWS, STRAY_SHARE * facts.present) for count in counts)
    others = by_count[: len(by_count) - strays]
    if len(others) < 2 or others[-1][1] < ENOUGH_ROWS:
        return []
    return [value for value, _ in by_count[len(others) :]]


def stray_note(facts: ColumnFacts, column: pa.ChunkedArray, *, has_null_values: bool) -> str:
    """What is noted of the stray values of a label; empty if there are none.

    Args:
        facts: of the label.
        column: its values.
        has_null_values: whether the source has the setting `null_values`.
    """
    strays = stray_values(facts)
    left = facts.distinct - len(strays)
    if not strays or (left > 2 and facts.scalar == "float"):
        return ""
    counts = dict(facts.by_count())
    rows = sum(counts[value] for value in strays)
    first = 1 + min(pc.index(column, pa.scalar(value, column.type)).as_py() for value in strays)
    several = len(strays) > 1
    found = f"{_listed(strays)} {'are' if several else 'is'} in {rows:,} of {plural(facts.present, 'row')}"
    where = f"first in row {first:,}" if rows > 1 else f"row {first:,}"
    without = f"; without {'them' if several else 'it'} the label would be binary" if left == 2 else ""
    return f"{found}, {where}{without}; {_remedy(strays, has_null_values=has_null_values)}"


def _remedy(strays: Sequence[Any], *, has_null_values: bool) -> str:
    them, mean = ("them", "they mean") if len(strays) > 1 else ("it", "it means")
    empty = f"name {them} in `data.source.null_values`" if has_null_values else f"make {them} null in the data"
    return f"correct a mistake in the data; if {mean} that there is no label, {empty} and set its `missing: drop`"


def _listed(strays: Sequence[Any]) -> str:
    return join_names((f'"{show(value)}"' if isinstance(value, str) else show(value) for value in strays), 3)
