"""Rows of Arrow in one record batch."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One or more batches of one schema as a single batch. Errors: see `in_one_batch`."""
    return batches[0] if len(batches) == 1 else in_one_batch(pa.Table.from_batches(batches))


def in_one_batch(table: pa.Table) -> pa.RecordBatch:
    """The table as a batch, which may have no rows. Raises ArrowCapacityError if Arrow cannot put its rows in one."""
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        what = f"a column of {table.num_rows:,} rows has more than 2 GiB of text or bytes, which one batch cannot hold"
        raise pa.ArrowCapacityError(what)
    if batches:
        return batches[0]
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in table.schema], schema=table.schema)
