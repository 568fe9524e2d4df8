"""The examples of a split as a table of Arrow, as `Run.examples` returns them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.statistics.read import batches
from headrace.trainer.input.transformed_columns import column_files, open_columns


def example_table(split: Path) -> pa.Table:
    """All examples in a folder, in the order of its files.

    A column with at most one value per example holds the values, with null for missing ones; others hold lists.
    """
    if stored := column_files(str(split)):
        table = pa.concat_tables(map(open_columns, stored))
        table = table.cast(pa.schema([field.with_type(_with_int64(field.type)) for field in table.schema]))
        return pa.table({name: _values(table.column(name)) for name in table.column_names})
    files = sorted(str(file) for file in split.iterdir() if file.is_file() and not file.name.startswith("."))
    parts = [pa.Table.from_batches([batch]) for file in files for batch in batches(file)]
    if not parts:
        return pa.table({})
    table = pa.concat_tables(parts, promote_options="default").combine_chunks()
    return pa.table({name: _values(table.column(name)) for name in sorted(table.column_names)})


def _with_int64(kind: pa.DataType) -> pa.DataType:
    """The type of a stored column as the feature spec has it."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_with_int64(kind.value_type), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_with_int64(kind.value_type))
    return pa.int64() if pa.types.is_int32(kind) else kind


def _values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of a column of lists if no list has more than one value; otherwise the column."""
    if pa.types.is_fixed_size_list(column.type):
        return pc.list_flatten(column) if column.type.list_size == 1 else column
    if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
        return column
    lengths = pc.list_value_length(column)
    if (pc.max(lengths).as_py() or 0) > 1:
        return column
    # Row i takes the value at the number of values before it; rows without a value take null.
    has_value = pc.fill_null(pc.equal(lengths, 1), False)
    positions = pc.if_else(has_value, pc.subtract(pc.cumulative_sum(has_value.cast(pa.int64())), 1), None)
    return pc.list_flatten(column).take(positions)
