"""Numbers of a row side by side, as rows in one column: what is moved together lies together.

rows = side_by_side(batch)             # its numbers in one column, the others as they are
columns(rows.take(order))              # the columns again, in another order of names, and float32 for float64

Taking rows of many columns one column after the other costs a jump in memory for each value; this way, for each row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from components.example_gen.repeated import numbers_of, valid_of

_ROWS = "\0rows"
"""The name of the column; there may be others of any name, but not of this one."""

_COLUMNS = b"columns"
"""Where the schema's metadata holds that of the columns."""


def side_by_side(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its columns of numbers in one, whose rows end in a bit for each value that is missing."""
    fields = _numbers(batch.schema)
    if len(fields) < 2:
        return batch
    dtype = _dtype(fields)
    rows = np.zeros(batch.num_rows, dtype)
    for number, field in enumerate(fields):
        column = batch.column(field.name)
        with np.errstate(over="ignore", invalid="ignore"):
            rows[_name(number)] = numbers_of(column)
        valid = valid_of(column)
        if valid is not None:
            rows[_bits(number)] |= (~valid).view(np.uint8) << np.uint8(number % 8)
    own = pa.Array.from_buffers(pa.binary(dtype.itemsize), len(rows), [None, pa.py_buffer(rows)])
    others = [place for place, field in enumerate(batch.schema) if not _is_number(field)]
    together = [own, *(batch.column(place) for place in others)]
    schema = pa.schema([pa.field(_ROWS, own.type), *(batch.schema.field(place) for place in others)])
    kept = schema.with_metadata({_COLUMNS: batch.schema.remove_metadata().serialize().to_pybytes()})
    return pa.RecordBatch.from_arrays(together, schema=kept)


def columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of rows that `side_by_side` made."""
    if _COLUMNS not in (batch.schema.metadata or {}):
        return batch
    fields = _numbers(pa.ipc.read_schema(pa.py_buffer(batch.schema.metadata[_COLUMNS])))
    own, dtype = batch.column(0), _dtype(fields)
    rows = np.frombuffer(own.buffers()[1], dtype)[own.offset : own.offset + len(own)]
    arrays = {field.name: _column(rows, number) for number, field in enumerate(fields)}
    arrays |= {name: batch.column(name) for name in batch.schema.names[1:]}
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def width(batch: pa.RecordBatch) -> int:
    """How many columns `columns` gives."""
    if _COLUMNS not in (batch.schema.metadata or {}):
        return int(batch.num_columns)
    kept = pa.ipc.read_schema(pa.py_buffer(batch.schema.metadata[_COLUMNS]))
    return len(kept.names)


def _column(rows: NDArray[np.void], number: int) -> pa.Array:
    missing = rows[_bits(number)] & np.uint8(1 << number % 8)
    values = np.ascontiguousarray(rows[_name(number)])
    valid = pa.py_buffer(np.packbits(missing == 0, bitorder="little")) if missing.any() else None
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(rows), [valid, pa.py_buffer(values)])


def _numbers(schema: pa.Schema) -> list[pa.Field]:
    return [field for field in schema if _is_number(field)]


def _is_number(field: pa.Field) -> bool:
    return bool(pa.types.is_integer(field.type) or pa.types.is_floating(field.type))


def _dtype(fields: Sequence[pa.Field]) -> np.dtype[np.void]:
    own = [(_name(number), _narrow(field.type)) for number, field in enumerate(fields)]
    return np.dtype([*own, *((_bits(number), np.uint8) for number in range(0, len(fields), 8))])


def _narrow(arrow: pa.DataType) -> np.dtype[np.generic]:
    """Floating-point numbers are written as float32 (see `encode`), so they need not be kept as more."""
    return np.dtype(np.float32 if pa.types.is_floating(arrow) else arrow.to_pandas_dtype())


def _name(number: int) -> str:
    return f"value {number}"


def _bits(number: int) -> str:
    return f"missing {number // 8}"
