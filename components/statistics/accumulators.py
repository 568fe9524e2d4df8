"""Serializes an accumulator of statistics as an Arrow table with a row for each column of the data.

content = to_bytes(StatisticsCombiner().compact(accumulator))  # an Arrow IPC stream, for `pyarrow.ipc.open_stream`
accumulator = from_bytes(content)                              # for `StatisticsCombiner.merge_accumulators`

The table contains only numbers, text and the states of sketches, so reading a file never executes anything in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tfx_bsl.sketches import KmvSketch, QuantilesSketch

from headrace.components.statistics.categories import ValueCounts
from headrace.components.statistics.columns import COUNTS, ColumnStatistics
from headrace.components.statistics.combine import Accumulator
from headrace.components.statistics.numeric import NUMBERS

_SKETCHES = ("lengths", "quantiles")
_VALUES = pa.schema(
    [("distinct_values", pa.large_list(pa.large_binary())), ("distinct_counts", pa.large_list(pa.int64()))]
)
"""The columns of `ValueCounts.table`."""
_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        *((name, pa.from_numpy_dtype(fields[name])) for fields in (COUNTS, NUMBERS) for name in fields.names or ()),
        *((name, pa.binary()) for name in _SKETCHES),
        ("counts_lowered", pa.int64()),
        ("counts_distinct", pa.binary()),
        *_VALUES,
    ]
)
"""`counts_lowered` is null if the column has no `ValueCounts`."""
_EXAMPLES = b"num_examples"
"""Key in the table's metadata: the number of examples, in decimal digits."""

_COMPRESSION = "zstd"
"""A sketch of numbers has four doubles for each of up to some thousand values, three of them nearly regular.
Compression shrinks it to a fifth, in a third of the time that making the table takes."""
_READ_ERRORS = (
    ArithmeticError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    pa.ArrowException,
)
"""What Arrow, tfx_bsl's sketches and conversions raise for wrong content, besides ValueError."""


def to_bytes(accumulator: Accumulator) -> bytes:
    """A compacted accumulator of `StatisticsCombiner` as an Arrow IPC stream."""
    columns = accumulator.columns
    counted = [accumulator.categories.get(name) for name in columns.names]
    schema = _SCHEMA.with_metadata({_EXAMPLES: str(columns.num_examples).encode()})
    arrays = {
        "name": columns.names,
        **{name: columns.counts[name] for name in COUNTS.names or ()},
        **{name: columns.numbers[name] for name in NUMBERS.names or ()},
        **{name: [_state(sketch) for sketch in getattr(columns, name)] for name in _SKETCHES},
        "counts_lowered": [None if counts is None else counts.lowered for counts in counted],
        "counts_distinct": [counts and counts.distinct and counts.distinct.Serialize() for counts in counted],
        **{field.name: _count_lists(number, counted) for number, field in enumerate(_VALUES)},
    }
    table = pa.RecordBatch.from_arrays([_array(arrays[field.name], field.type) for field in schema], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=_COMPRESSION)) as stream:
        stream.write_batch(table)
    return bytes(sink.getvalue().to_pybytes())


def is_accumulator(content: bytes) -> bool:
    """Whether bytes start like the output of `to_bytes`."""
    try:
        with pa.ipc.open_stream(content) as stream:
            return bool(stream.schema.equals(_SCHEMA)) and _EXAMPLES in (stream.schema.metadata or {})
    except (OSError, pa.ArrowException):
        return False


def from_bytes(content: bytes) -> Accumulator:
    """The accumulator in the output of `to_bytes`. Raises ValueError for other bytes.

    The states of sketches are not validated, so compare a checksum of the content first.
    """
    if not is_accumulator(content):
        raise ValueError("not a table of accumulators")
    try:
        with pa.ipc.open_stream(content) as stream:
            table = stream.read_next_batch()
        table.validate(full=True)
        return Accumulator(_columns(table), dict(_categories(table)))
    except _READ_ERRORS as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _columns(table: pa.RecordBatch) -> ColumnStatistics:
    columns = ColumnStatistics()
    columns.num_examples = int(table.schema.metadata[_EXAMPLES])
    names = table["name"].to_pylist()
    if None in names or len(set(names)) < len(names):
        raise ValueError("a column's name is missing or occurs twice")
    columns.rows(names)
    columns.counts, columns.numbers = _structured(table, COUNTS), _structured(table, NUMBERS)
    columns.lengths, columns.quantiles = ([_sketch(state.as_py()) for state in table[name]] for name in _SKETCHES)
    return columns


def _categories(table: pa.RecordBatch) -> Iterable[tuple[str, ValueCounts]]:
    names = ("name", "counts_lowered", "counts_distinct")
    for number, (name, lowered, distinct) in enumerate(zip(*(table[name].to_pylist() for name in names), strict=True)):
        if lowered is not None:
            values, counts = (table[name][number].values for name in _VALUES.names)
            if values.null_count or counts.null_count:
                raise ValueError("a value or its count is missing")
            sketch = None if distinct is None else KmvSketch.Deserialize(distinct)
            yield (
                name,
                ValueCounts(pa.table([values, counts], ValueCounts().table.schema), distinct=sketch, lowered=lowered),
            )


def _structured(table: pa.RecordBatch, dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """Columns of the table as one array. Raises ArrowInvalid if a value is missing."""
    array = np.empty(table.num_rows, dtype)
    for name in dtype.names or ():
        array[name] = table[name].to_numpy()  # which refuses nulls
    return array


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _count_lists(number: int, counted: list[ValueCounts | None]) -> pa.Array:
    """The values or the counts of all tables, as one list for each table."""
    tables = [(counts or ValueCounts()).table for counts in counted]
    offsets = np.cumsum([0, *(table.num_rows for table in tables)])
    chunks = [chunk for table in tables for chunk in table[number].chunks]
    kind = _VALUES[number].type
    values = pa.concat_arrays(chunks) if chunks else pa.array([], kind.value_type)
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, type=kind)


def _state(sketch: Any) -> bytes | None:
    return None if sketch is None else sketch.__getstate__()


def _sketch(state: bytes | None) -> Any:
    """The sketch with a state. Raises RuntimeError if the bytes are not a state."""
    if state is None:
        return None
    sketch = QuantilesSketch.__new__(QuantilesSketch)  # tfx_bsl restores a state only through __setstate__
    sketch.__setstate__(state)
    return sketch
