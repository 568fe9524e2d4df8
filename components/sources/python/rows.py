"""What a function yields as batches of Arrow columns: dictionaries one by one, or tables of many rows.

for batch in batches_of(items, declared, "mine.data.rows"):
    batch.first, batch.columns      # the number of its first row, and its columns by name
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.common.errors import DataError
from headrace.components.sources.arrays.tables import ARROW_ERRORS, as_table, first_misfit, is_pandas
from headrace.components.sources.conversion import MAX_ROWS, batch_rows
from headrace.components.sources.nested import flat_columns, object_paths
from headrace.components.sources.types import Kind, first_duplicate

ROWS = 4096
VALUES = 1 << 20
"""The largest number of dictionaries, and about that of values, that are converted together."""


@dataclass(frozen=True)
class RowBatch:
    """Some rows. first: the number of the first one, counted from 0; columns: all of the same length; objects: the
    paths of the dictionaries that they come from.
    """

    first: int
    rows: int
    columns: Mapping[str, pa.Array]
    objects: frozenset[str] = frozenset()


def batches_of(
    items: Iterable[Any], declared: Mapping[str, Kind], function: str, keys: Collection[str] | None = None
) -> Iterator[RowBatch]:
    """The rows in batches of bounded size. Raises DataError, which names the function, for what is not rows.

    Args:
        items: what the function yields.
        declared: the kinds that the config declares. Their columns may mix numbers and texts, which all become texts.
        function: its dotted path.
        keys: those of the dictionaries that are read; None: all.
    """
    first, rows, room = 0, list[Mapping[str, Any]](), ROWS
    for item in items:
        if isinstance(item, Mapping):
            rows.append(item)
            room = min(room, max(1, VALUES // max(1, len(item))))
            if len(rows) >= room:
                yield _from_rows(rows, first, declared, function, keys)
                first, rows, room = first + len(rows), [], ROWS
            continue
        if rows:
            yield _from_rows(rows, first, declared, function, keys)
            first, rows, room = first + len(rows), [], ROWS
        table = _table(item, first, function)
        yield from _slices(table, first, function)
        first += table.num_rows
    if rows:
        yield _from_rows(rows, first, declared, function, keys)


def number_of_rows(item: Any) -> int:
    """How many rows an item is that a function has yielded."""
    is_table = isinstance(item, pa.RecordBatch | pa.Table) or is_pandas(item, "DataFrame")
    return len(item) if is_table else 1


def _table(item: Any, first: int, function: str) -> pa.Table:
    if isinstance(item, pa.RecordBatch | pa.Table) or is_pandas(item, "DataFrame"):
        try:
            return as_table(item)
        except DataError as error:
            raise DataError(error.what, file=function, column=error.column, hint=error.hint) from None
    raise DataError(
        f"yielded {type(item).__name__} after row {first:,}; expected a row as a dictionary, a pyarrow table or batch,"
        " or a pandas DataFrame",
        file=function,
        hint="Yield {column: value} for each row; a function that returns whole arrays is `kind: arrays`",
    )


def _slices(table: pa.Table, first: int, function: str) -> Iterator[RowBatch]:
    """The rows of a table, each batch small enough to convert."""
    step = min(MAX_ROWS, batch_rows(table.nbytes, table.num_rows, table.num_columns))
    for start in range(0, table.num_rows, step):
        rows = table.slice(start, step).combine_chunks().to_batches()
        yield from (_flat(batch, first + start, function) for batch in rows)


def _from_rows(
    rows: Sequence[Mapping[str, Any]],
    first: int,
    declared: Mapping[str, Kind],
    function: str,
    keys: Collection[str] | None,
) -> RowBatch:
    arrays: dict[str, pa.Array] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        if not isinstance(name, str) or not name.strip():
            what = f"yielded a row with the key {name!r}, which cannot name a column"
            raise DataError(what, file=function, hint="Use texts as keys")
        if keys is None or name in keys:
            arrays[name] = _column(name, [row.get(name) for row in rows], first, declared.get(name), function)
    if not arrays:
        return RowBatch(first, len(rows), {})
    return _flat(pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)), first, function)


def _column(name: str, values: list[Any], first: int, declared: Kind | None, function: str) -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)  # in which NaN, pandas.NA and NaT are missing
    except ARROW_ERRORS as error:
        texts = _as_texts(values) if declared in {"string", "int", "float"} else None
        if texts is not None:
            return texts
        what = first_misfit(values, "yields", error, first)
        hint = "Yield values of one type, or set `data.types.{column}`, for example to string"
        raise DataError(what, file=function, column=name, hint=hint) from None


def _as_texts(values: Sequence[Any]) -> pa.Array | None:
    """Numbers and texts as texts; None if there are other values."""
    if not all(isinstance(value, str | bool | int | float | np.number | Decimal | None) for value in values):
        return None
    missing = (value is None or value != value for value in values)  # noqa: PLR0124 - NaN alone differs from itself
    texts = (str(int(value)) if isinstance(value, bool) else str(value) for value in values)
    return pa.array([None if none else text for none, text in zip(missing, texts, strict=True)], pa.string())


def _flat(batch: pa.RecordBatch, first: int, function: str) -> RowBatch:
    """The batch with the values of nested dictionaries as columns."""
    names, columns = flat_columns(batch)
    if (twice := first_duplicate(names)) is not None:
        raise DataError("two keys lead to a column of this name", file=function, column=twice)
    objects = object_paths(batch.schema)
    return RowBatch(first, batch.num_rows, dict(zip(names, columns, strict=True)), objects)
