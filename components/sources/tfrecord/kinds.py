"""Kinds and conversions of columns of lists, as decoders of tf.Examples return them.

Where few records have many features, one call handles all columns of a type: the columns are stacked, one after another
in one array, because a call per column would cost more than the values do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import FEW_ROWS, MANY_COLUMNS, STACK_BYTES
from headrace.components.examples.parts import grouped
from headrace.components.sources.conversion import convert
from headrace.components.sources.stored_types import ConversionError
from headrace.components.sources.types import ARROW, LIST, Kind, listed

LENGTHS = ".lengths"
"""The suffix to the name of a feature list that names the column with the number of values of each step."""

Lists = Mapping[str, pa.Array]
"""Columns by name: list arrays, or of type null."""


def find_kinds(columns: Lists, rows: int) -> dict[str, Kind]:
    """The narrowest kinds that hold the values."""
    if not _worth_stacking(columns, rows):
        return {name: _find_kind(column) for name, column in columns.items()}
    kinds: dict[str, Kind] = dict.fromkeys(columns, "missing")
    for names, stack in _stacks(columns, rows, columns):
        lengths = _lengths(stack).reshape(len(names), rows)
        inner = _kinds_of_values(stack, lengths.sum(axis=1))
        longest = lengths.max(axis=1)
        kinds |= {
            name: "missing" if not count else listed(kind) if count > 1 else kind
            for name, kind, count in zip(names, inner, longest.tolist(), strict=True)
        }
    return kinds


def convert_stacked(columns: Lists, kinds: Mapping[str, Kind], rows: int) -> dict[str, pa.Array]:
    """Convert the columns of single values, as long as stacking them is worthwhile: null where a list is empty.

    Leaves out columns with a list of multiple values, and columns with a value that may not fit.
    """
    converted: dict[str, pa.Array] = {}
    by_kind: dict[Kind, list[str]] = {}
    for name, kind in kinds.items() if _worth_stacking(columns, rows) else ():
        if name in columns and kind in {"int", "float", "string", "bytes"}:
            by_kind.setdefault(kind, []).append(name)
    for kind, candidates in by_kind.items():
        for names, stack in _stacks(columns, rows, candidates):
            lengths = _lengths(stack)
            if lengths.max() > 1:
                continue
            starts = np.cumsum(lengths) - lengths
            try:
                values = convert(stack.flatten().take(pa.array(starts, mask=lengths == 0)), kind)
            except ConversionError:
                continue
            converted |= {name: values.slice(number * rows, rows) for number, name in enumerate(names)}
    return converted


def single_values(column: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The first value of each list, or null if it is empty; and which lists have multiple values (bool [rows])."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return column.flatten().take(pa.array(starts, mask=lengths == 0)), lengths > 1


def empty_lists(column: pa.Array, kind: Kind) -> pa.Array:
    """A column without values as one of another kind: lists stay empty lists or null, anything else is null."""
    if not kind.endswith(LIST):
        return pa.nulls(len(column))
    return pc.if_else(column.is_valid(), pa.scalar([], ARROW[kind]), pa.scalar(None, ARROW[kind]))


def storage_kind(column: pa.Array) -> Kind:
    """The kind in which the values of a column are stored; missing if there are none."""
    if pa.types.is_null(column.type) or pa.types.is_null(column.type.value_type) or not len(column.flatten()):
        return "missing"
    inner = column.type.value_type
    return "int" if pa.types.is_integer(inner) else "float" if pa.types.is_floating(inner) else "bytes"


def _find_kind(column: pa.Array) -> Kind:
    kind = storage_kind(column)
    if kind == "missing":
        return kind
    if kind == "bytes" and _is_text(column.flatten()):
        kind = "string"
    return listed(kind) if pc.max(pc.list_value_length(column)).as_py() > 1 else kind


def _worth_stacking(columns: Lists, rows: int) -> bool:
    return 0 < rows < FEW_ROWS and len(columns) >= MANY_COLUMNS


def _stacks(columns: Lists, rows: int, names: Sequence[str] | Lists) -> Iterator[tuple[Sequence[str], pa.Array]]:
    """The list columns with these names, those of one type one after another in stacks of bounded size."""
    by_type: dict[tuple[int, int], list[str]] = {}
    for name in names:
        arrow = columns[name].type
        if not pa.types.is_null(arrow) and not pa.types.is_null(arrow.value_type):
            by_type.setdefault((arrow.id, arrow.value_type.id), []).append(name)
    for same in by_type.values():
        for group in grouped(same, [8 * rows] * len(same), STACK_BYTES):
            yield group, pa.concat_arrays([columns[name] for name in group])


def _lengths(stack: pa.Array) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = pc.list_value_length(stack).fill_null(0).to_numpy().astype(np.int64)
    return lengths


def _kinds_of_values(stack: pa.Array, counts: NDArray[np.int64]) -> list[Kind]:
    """The kind of the values of each column. `counts` (int64 [columns]): how many values each has."""
    values = stack.flatten()
    if pa.types.is_integer(values.type):
        return ["int"] * len(counts)
    if pa.types.is_floating(values.type):
        return ["float"] * len(counts)
    if _is_text(values):
        return ["string"] * len(counts)
    starts = np.cumsum(counts) - counts
    ranges = zip(starts.tolist(), counts.tolist(), strict=True)
    return ["string" if _is_text(values.slice(start, count)) else "bytes" for start, count in ranges]


def _is_text(values: pa.Array) -> bool:
    """Whether all values are UTF-8."""
    try:
        values.cast(pa.large_string() if pa.types.is_large_binary(values.type) else pa.string())
    except pa.ArrowInvalid:
        return False
    return True
