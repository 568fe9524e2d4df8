"""Kinds and values of columns of lists where few records have many features: one call for all columns of a type.

found = kinds(columns, rows)           # what each column is, of lists or of values
values = singles(columns, found, rows) # those of values alone, as arrays of their kinds
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.example_gen.columnar.stored import UnfitError, as_kind
from headrace.components.example_gen.parts import grouped
from headrace.components.example_gen.stacks import FEW_ROWS, LARGEST, MANY_COLUMNS
from headrace.components.example_gen.types import Kind, listed

Lists = Mapping[str, pa.Array]
"""Columns by name: list arrays, or of type null."""


def worth_it(columns: Lists, rows: int) -> bool:
    """Whether the columns cost more one by one."""
    return 0 < rows < FEW_ROWS and len(columns) >= MANY_COLUMNS


def kinds(columns: Lists, rows: int) -> dict[str, Kind]:
    """The narrowest kinds that take the values."""
    found: dict[str, Kind] = dict.fromkeys(columns, "missing")
    for names, stack in _stacks(columns, rows, columns):
        lengths = _lengths(stack).reshape(len(names), rows)
        inner = _kinds_of_values(stack, lengths.sum(axis=1))
        most = lengths.max(axis=1)
        found |= {
            name: "missing" if not count else listed(kind) if count > 1 else kind
            for name, kind, count in zip(names, inner, most.tolist(), strict=True)
        }
    return found


def singles(columns: Lists, wanted: Mapping[str, Kind], rows: int) -> dict[str, pa.Array]:
    """The columns that are wanted as values, in their kinds: null where a list has none. Those are left out of which a
    list may have several values, or a value may not fit.
    """
    found: dict[str, pa.Array] = {}
    by_kind: dict[Kind, list[str]] = {}
    for name, kind in wanted.items():
        if name in columns and kind in {"int", "float", "string", "bytes"}:
            by_kind.setdefault(kind, []).append(name)
    for kind, own in by_kind.items():
        for names, stack in _stacks(columns, rows, own):
            lengths = _lengths(stack)
            if lengths.max() > 1:
                continue
            places = np.cumsum(lengths) - lengths
            try:
                values = as_kind(stack.flatten().take(pa.array(places, mask=lengths == 0)), kind)
            except UnfitError:
                continue
            found |= {name: values.slice(number * rows, rows) for number, name in enumerate(names)}
    return found


def _stacks(columns: Lists, rows: int, names: Sequence[str] | Lists) -> Iterator[tuple[Sequence[str], pa.Array]]:
    """The columns of lists of these names, those of one type one behind the other."""
    by_type: dict[tuple[int, int], list[str]] = {}
    for name in names:
        arrow = columns[name].type
        if not pa.types.is_null(arrow) and not pa.types.is_null(arrow.value_type):
            by_type.setdefault((arrow.id, arrow.value_type.id), []).append(name)
    for some in by_type.values():
        for own in grouped(some, [8 * rows] * len(some), LARGEST):
            yield own, pa.concat_arrays([columns[name] for name in own])


def _lengths(stack: pa.Array) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = pc.list_value_length(stack).fill_null(0).to_numpy().astype(np.int64)
    return lengths


def _kinds_of_values(stack: pa.Array, counts: NDArray[np.int64]) -> list[Kind]:
    """The kind of each column's values, of which there are so many."""
    values = stack.flatten()
    if pa.types.is_integer(values.type):
        return ["int"] * len(counts)
    if pa.types.is_floating(values.type):
        return ["float"] * len(counts)
    if is_text(values):
        return ["string"] * len(counts)
    starts = np.cumsum(counts) - counts
    edges = zip(starts.tolist(), counts.tolist(), strict=True)
    return ["string" if is_text(values.slice(start, count)) else "bytes" for start, count in edges]


def is_text(values: pa.Array) -> bool:
    """Whether all these bytes are UTF-8."""
    try:
        values.cast(pa.large_string() if pa.types.is_large_binary(values.type) else pa.string())
    except pa.ArrowInvalid:
        return False
    return True
