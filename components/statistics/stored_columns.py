"""Reads the columns that ExampleGen stored beside a shard, as if its examples had been decoded.

Where a batch ends decides the last bits of what is computed of it, so batches end where they would after decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.components.examples.arrow_columns import plain, valid_of
from headrace.components.examples.column_files import SIZES, stored_rows
from headrace.components.examples.decode import lists


def rows_in_blocks(shard: str, block_bytes: int) -> Iterator[pa.RecordBatch] | None:
    """The rows of each block that `framed_blocks` reads; None if no columns are stored. Columns as in `stored_rows`."""
    batches = stored_rows(shard)
    return None if batches is None else _cut(((batch, _sizes(batch)) for batch in batches), block_bytes)


def rows_in_batches(shard: str, rows: int) -> Iterator[pa.RecordBatch] | None:
    """The rows, this many at a time, and the rest at last. None if no columns are stored."""
    batches = stored_rows(shard)
    return None if batches is None else _cut(((batch, np.ones(len(batch), np.int64)) for batch in batches), rows)


def as_decoded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """What `decode` returns for these rows, texts as lists of codes where they are stored so."""
    return pa.RecordBatch.from_arrays([_listed(column) for column in rows.columns], rows.schema.names)


def _sizes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    return batch.column(SIZES).to_numpy().astype(np.int64)


def _cut(sized: Iterable[tuple[pa.RecordBatch, NDArray[np.int64]]], room: int) -> Iterator[pa.RecordBatch]:
    """Batches of the rows that are whole after each reading, without SIZES.

    sized: batches, and the size of each row. A reading is of `room`, or of what is left of an unfinished row if that is
    more: with sizes of 1, `room` rows.
    """
    held: list[pa.RecordBatch] = []
    read, last, whole = room, 0, 0
    for batch, sizes in sized:
        ends, first = last + np.cumsum(sizes), 0
        while (after := int(np.searchsorted(ends, read, "right"))) < len(batch):
            held += [batch.slice(first, after - first)] if after > first else []
            whole = int(ends[after - 1]) if after else last
            if held:
                yield _joined(held)
            held, first, read = [], after, read + max(room, read - whole)
        held += [batch.slice(first)] if first < len(batch) else []
        last = int(ends[-1]) if len(ends) else last
    if held:
        yield _joined(held)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    schema = parts[0].schema
    columns = [_concatenated([part.column(place) for part in parts]) for place in range(len(schema) - 1)]
    return pa.RecordBatch.from_arrays(columns, schema.names[:-1])


def _concatenated(parts: list[pa.Array]) -> pa.Array:
    """One column of its parts, coded if they all are."""
    first = parts[0]
    if len(parts) == 1:
        return first
    coded = [pa.types.is_dictionary(part.type) for part in parts]
    if not any(coded):
        return pa.concat_arrays(parts)
    if not all(coded):
        return pa.concat_arrays([plain(part) for part in parts])
    if all(part.type == first.type and part.dictionary.equals(first.dictionary) for part in parts[1:]):
        return pa.concat_arrays(parts)
    alike = [pa.DictionaryArray.from_arrays(part.indices.cast(pa.int32()), part.dictionary) for part in parts]
    return pa.concat_arrays(pa.chunked_array(alike).unify_dictionaries().chunks)


def _listed(column: pa.Array) -> pa.Array:
    """A list of one value for each that is there, null elsewhere; of type null without any."""
    if column.null_count == len(column):
        return pa.nulls(len(column))
    valid = valid_of(column)
    values = column if valid is None else column.drop_null()
    values = values.cast(pa.large_binary()) if pa.types.is_binary(values.type) else values
    return lists(values, np.ones(len(column), np.bool_) if valid is None else valid)
