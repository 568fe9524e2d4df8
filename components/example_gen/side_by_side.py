"""Numbers of a row side by side, as rows in one column: what is moved together lies together.

rows = side_by_side(batch)             # its numbers in one column, the others as they are
columns(rows.take(order))              # the columns again, in another order of names, and float32 for float64

Taking rows of many columns one column after the other costs a jump in memory for each value; this way, for each row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.components.example_gen.repeated import numbers_of, valid_of
from headrace.components.example_gen.stacks import stacks_or_columns

_ROWS = "\0rows"
"""The name of the column; there may be others of any name, but not of this one."""

_COLUMNS = b"columns"
"""Where the schema's metadata holds that of the columns."""

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_KEPT_AS: Mapping[int, str] = {
    **{arrow.id: np.dtype(arrow.to_pandas_dtype()).str for arrow in _INTEGERS},
    **{arrow.id: np.dtype(np.float32).str for arrow in (pa.float16(), pa.float32(), pa.float64())},
}
"""The type that numbers are kept in, by Arrow's. Floating-point numbers are written as float32 (see `encode`)."""

_Groups = dict[str, list[int]]
"""The places of the columns of numbers, by the type that they are kept in."""


def side_by_side(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its columns of numbers in one, whose rows have a bit for each value that is missing."""
    groups = _groups(batch.schema)
    places = [place for own in groups.values() for place in own]
    if len(places) < 2:
        return batch
    rows = np.zeros(batch.num_rows, _dtype(groups))
    _fill(rows, batch.select(places), groups)
    own = pa.Array.from_buffers(pa.binary(rows.dtype.itemsize), len(rows), [None, pa.py_buffer(rows)])
    others = sorted({*range(batch.num_columns)} - {*places})
    together = [own, *(batch.column(place) for place in others)]
    schema = pa.schema([pa.field(_ROWS, own.type), *(batch.schema.field(place) for place in others)])
    kept = schema.with_metadata({_COLUMNS: batch.schema.remove_metadata().serialize().to_pybytes()})
    return pa.RecordBatch.from_arrays(together, schema=kept)


def columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of rows that `side_by_side` made."""
    if _COLUMNS not in (batch.schema.metadata or {}):
        return batch
    schema = pa.ipc.read_schema(pa.py_buffer(batch.schema.metadata[_COLUMNS]))
    names, groups, own = schema.names, _groups(schema), batch.column(0)
    rows = np.frombuffer(own.buffers()[1], _dtype(groups))[own.offset : own.offset + len(own)]
    arrays: dict[str, pa.Array] = {}
    for group, places in groups.items():
        values = _values(rows[group], rows[_missing(group)])
        arrays |= {names[place]: values.slice(number * len(own), len(own)) for number, place in enumerate(places)}
    arrays |= dict(zip(batch.schema.names[1:], batch.columns[1:], strict=True))
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def width(batch: pa.RecordBatch) -> int:
    """How many columns `columns` gives."""
    if _COLUMNS not in (batch.schema.metadata or {}):
        return int(batch.num_columns)
    kept = pa.ipc.read_schema(pa.py_buffer(batch.schema.metadata[_COLUMNS]))
    return len(kept.names)


def _fill(rows: NDArray[np.void], numbers: pa.RecordBatch, groups: _Groups) -> None:
    """Write columns of numbers, those of a group one behind the other, into the rows."""
    group_of = [group for group, places in groups.items() for _ in places]
    place_in_group = np.concatenate([np.arange(len(places)) for places in groups.values()])
    for stack in stacks_or_columns(numbers):
        group, places = group_of[stack.places[0]], place_in_group[stack.places]
        with np.errstate(over="ignore", invalid="ignore"):
            rows[group][:, places] = stack.per_column(numbers_of(stack.values)).T
        valid = valid_of(stack.values)
        for place, own in zip(places.tolist(), [] if valid is None else stack.per_column(valid), strict=False):
            rows[_missing(group)][:, place // 8] |= (~own).view(np.uint8) << np.uint8(place % 8)


def _values(numbers: NDArray[np.number], missing: NDArray[np.uint8]) -> pa.Array:
    """Numbers [rows, n], of which those are null whose bits [rows, n / 8] are set, column after column."""
    valid = None
    if missing.any():
        bits = np.unpackbits(missing, axis=1, count=numbers.shape[1], bitorder="little")
        valid = pa.py_buffer(np.packbits(bits.T.reshape(-1) == 0, bitorder="little"))
    values = np.ascontiguousarray(numbers.T).reshape(-1)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(values)])


def _groups(schema: pa.Schema) -> _Groups:
    groups = _Groups()
    for place, arrow in enumerate(schema.types):
        if (group := _KEPT_AS.get(arrow.id)) is not None:
            groups.setdefault(group, []).append(place)
    return groups


def _dtype(groups: _Groups) -> np.dtype[np.void]:
    """Of a row."""
    numbers = [(group, group, (len(places),)) for group, places in groups.items()]
    bits = [(_missing(group), np.uint8, (-(-len(places) // 8),)) for group, places in groups.items()]
    return np.dtype([*numbers, *bits])


def _missing(group: str) -> str:
    return f"missing {group}"
