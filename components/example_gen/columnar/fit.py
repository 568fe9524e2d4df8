"""Stored columns to batches of the asked kinds, with the rows named that cannot be read so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from headrace.components.example_gen.columnar.stored import UnfitError, as_kind, unfit_rows
from headrace.components.example_gen.parts import room
from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError

MOST_ROWS = 1 << 16
BATCH = 1 << 23
"""Rows and bytes of a batch, about."""

Bad = dict[int, tuple[str, str]]
"""Rows that do not fit: the column, and what is wrong with its value."""


def fit(columns: Mapping[str, pa.Array], kinds: Mapping[str, Kind], file: str) -> tuple[pa.RecordBatch, Bad]:
    """The columns in their kinds, without the rows that do not fit; and those rows, with their first bad column.

    Raises DataError, which names `file`, for a column that cannot be of its kind whatever its values.
    """
    fitted: dict[str, pa.Array] = {}
    bad: Bad = {}
    for name, column in columns.items():
        try:
            fitted[name] = as_kind(column, kinds[name])
        except UnfitError:
            _check_type(name, column, kinds[name], file)
            bad.update({row: (name, what) for row, what in unfit_rows(column, kinds[name]) if row not in bad})
    if bad:
        kept = np.ones(len(next(iter(columns.values()))), bool)
        kept[list(bad)] = False
        fitted = {name: as_kind(column.filter(pa.array(kept)), kinds[name]) for name, column in columns.items()}
    batch = pa.RecordBatch.from_arrays(list(fitted.values()), names=list(fitted))
    return batch, dict(sorted(bad.items()))


def _check_type(name: str, column: pa.Array, kind: Kind, file: str) -> None:
    try:
        as_kind(column.slice(0, 0), kind)
    except UnfitError as error:
        raise DataError(str(error), file=file, column=name) from None


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices of about BATCH bytes, none of them empty."""
    slices = max(1, -(-batch.nbytes // room(BATCH, batch.num_columns)))
    step = max(1, -(-batch.num_rows // slices))
    return (batch.slice(start, step) for start in range(0, batch.num_rows, step))


def rows_in_batch(size: int, rows: int, columns: int = 1) -> int:
    """Rows that take about BATCH bytes, more of very many columns, of data that takes `size` bytes for `rows`."""
    return max(1, min(MOST_ROWS, room(BATCH, columns) * max(rows, 1) // max(size, 1)))
