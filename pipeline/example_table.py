"""The examples of a split as one Arrow table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.statistics.read import batches


def example_table(split: Path) -> pa.Table:
    """All tf.Examples of a folder, in the order of its files. Columns of lists, but for those where no list is longer
    than one: of these, the values, null where there is none. Raises DataError if a file is damaged.
    """
    files = sorted(str(file) for file in split.iterdir() if file.is_file() and not file.name.startswith("."))
    parts = [pa.Table.from_batches([batch]) for file in files for batch in batches(file)]
    if not parts:
        return pa.table({})
    table = pa.concat_tables(parts, promote_options="default").combine_chunks()
    return pa.table({name: _values(table.column(name)) for name in sorted(table.column_names)})


def _values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_list(column.type) and not pa.types.is_large_list(column.type):
        return column
    lengths = pc.list_value_length(column)
    most = pc.max(lengths).as_py() or 0
    if most > 1:
        return column
    there = pc.fill_null(pc.equal(lengths, 1), False)
    places = pc.if_else(there, pc.subtract(pc.cumulative_sum(there.cast(pa.int64())), 1), None)
    return pc.list_flatten(column).take(places)
