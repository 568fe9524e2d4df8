"""Arrow columns as columns of the kinds of examples, whatever stored them: Parquet, pandas, Arrow, TensorFlow.

A declared type wins where every value can be cast: numbers in text to `int` and `float`, anything to `string`. A date
as `int` is a number of days, and a timestamp a number of whole seconds, since 1970-01-01 UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import BadRecordError, DataError
from headrace.components.examples.parts import room
from headrace.components.sources.stored_types import ConversionError, holds_lists, is_bytes, is_text, stored_values
from headrace.components.sources.types import ARROW, LIST, Kind

MAX_ROWS = 1 << 16
BATCH = 1 << 23
"""The size of a batch: the largest number of rows, and about the largest number of bytes."""

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""How many of each time unit make a second."""


BadRows = dict[int, tuple[str, str]]
"""The rows that cannot be converted, each with its first bad column and what is wrong with the value."""


def convert_columns(
    columns: Mapping[str, pa.Array], kinds: Mapping[str, Kind], file: str
) -> tuple[pa.RecordBatch, BadRows]:
    """Convert columns to their kinds, without the rows that cannot be converted, which are returned too.

    Raises DataError, which names `file`, for a column that cannot be of its kind whatever its values.
    """
    converted: dict[str, pa.Array] = {}
    bad: BadRows = {}
    for name, column in columns.items():
        try:
            converted[name] = convert(column, kinds[name])
        except ConversionError:
            _check_type(name, column, kinds[name], file)
            bad.update({row: (name, what) for row, what in _bad_rows(column, kinds[name]) if row not in bad})
    if bad:
        good = np.ones(len(next(iter(columns.values()))), bool)
        good[list(bad)] = False
        converted = {name: convert(column.filter(pa.array(good)), kinds[name]) for name, column in columns.items()}
    batch = pa.RecordBatch.from_arrays(list(converted.values()), names=list(converted))
    return batch, dict(sorted(bad.items()))


def row_errors(bad: BadRows, file: str, locate: Callable[[int], str]) -> Iterator[Callable[[], DataError]]:
    """For each bad row a function that makes its error. `locate` describes the position of a row in the file."""
    for row, (name, what) in bad.items():
        yield partial(BadRecordError, f"{locate(row)} {what}", file=file, column=name)


def slice_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices of about BATCH bytes, none of them empty."""
    slices = max(1, -(-batch.nbytes // room(BATCH, batch.num_columns)))
    step = max(1, -(-batch.num_rows // slices))
    return (batch.slice(start, step) for start in range(0, batch.num_rows, step))


def batch_rows(size: int, rows: int, columns: int = 1) -> int:
    """How many rows take about BATCH bytes (more for very many columns), if `rows` rows take `size` bytes."""
    return max(1, min(MAX_ROWS, room(BATCH, columns) * max(rows, 1) // max(size, 1)))


def cast_declared(column: pa.Array, kind: Kind, name: str) -> pa.Array:
    """A column of a known type, cast to the kind that the config declares. Raises DataError if a value does not fit."""
    try:
        return column.cast(ARROW[kind])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        hint = "Declare another type in `data.types.{column}`"
        raise DataError(f"cannot be read as {kind}: {error}", column=name, hint=hint) from None


def convert(column: pa.Array, kind: Kind) -> pa.Array:
    """The column in the Arrow type of a kind; float32 stays float32. Raises ConversionError if a value does not fit.

    Of the kind `stored`, it is the column itself.
    """
    if kind == "stored" or (kind in ("int", "float") and column.type == ARROW[kind]):
        return column
    column = stored_values(column)
    if pa.types.is_null(column.type) or _only_empty_lists(column):
        return pa.nulls(len(column), ARROW[kind])
    if pa.types.is_floating(column.type) and kind.removesuffix(LIST) == "int":
        column = pa.array(column.to_numpy(zero_copy_only=False), from_pandas=True)  # NaN is a missing integer
    if kind.endswith(LIST):
        return _as_lists(column, kind.removesuffix(LIST))
    if holds_lists(column.type):
        raise ConversionError(f"holds lists, so it cannot be read as {kind}; the type for lists is `{kind} list`")
    try:
        return _as_values(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConversionError(f"cannot be read as {kind}: {error}") from None


def _check_type(name: str, column: pa.Array, kind: Kind, file: str) -> None:
    try:
        convert(column.slice(0, 0), kind)
    except ConversionError as error:
        raise DataError(str(error), file=file, column=name) from None


def _bad_rows(column: pa.Array, kind: Kind) -> Iterator[tuple[int, str]]:
    """The rows whose value does not fit, and what is wrong with each: found by halving what does not convert."""
    pending = [(0, column)]
    while pending:
        start, rows = pending.pop()
        try:
            convert(rows, kind)
        except ConversionError as error:
            if len(rows) == 1:
                yield start, str(error)
            else:
                half = len(rows) // 2
                pending += [(start + half, rows.slice(half)), (start, rows.slice(0, half))]


def _only_empty_lists(column: pa.Array) -> bool:
    """Whether it is a column of lists whose values have no type because there are none."""
    return holds_lists(column.type) and pa.types.is_null(column.type.value_type) and not len(column.flatten())


def _as_lists(column: pa.Array, inner: str) -> pa.Array:
    if holds_lists(column.type):
        column = column.cast(pa.list_(column.type.value_type))
        values, lengths = column.flatten(), pc.list_value_length(column).fill_null(0)
        if values.null_count:
            raise ConversionError("holds a list with a null in it; a list has values or is missing as a whole")
    else:
        values, lengths = column.drop_null(), column.is_valid()
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths.cast(pa.int32()).to_numpy(zero_copy_only=False), out=offsets[1:])
    kind: Kind = inner  # type: ignore[assignment]
    mask = column.is_null() if column.null_count else None
    converted = convert(values, kind)
    if converted.null_count:
        raise ConversionError(f"cannot be read as {kind} list: a list with NaN in it")
    return pa.ListArray.from_arrays(pa.array(offsets), converted, mask=mask)


def _as_values(column: pa.Array, kind: Kind) -> pa.Array:
    types, stored = pa.types, column.type
    if kind == "string":
        return _as_text(column)
    if kind == "bytes":
        return (column if is_bytes(stored) else _as_text(column)).cast(pa.binary())
    if kind == "missing":
        raise ConversionError("has values, but its kind is `missing`")
    if types.is_date(stored) or types.is_timestamp(stored) or types.is_duration(stored) or types.is_time(stored):
        return _time_as_number(column, kind)
    if kind == "int":
        return column.cast(pa.int64())
    return _as_float(column)


def _as_float(column: pa.Array) -> pa.Array:
    types, stored = pa.types, column.type
    if types.is_decimal(stored):
        return column.cast(pa.string()).cast(pa.float64())  # Arrow's own cast turns 7.25 into 7.250000000000001
    if types.is_float16(stored) or types.is_float32(stored):
        return column.cast(pa.float32())
    return column.cast(pa.float64(), safe=False) if types.is_integer(stored) else column.cast(pa.float64())


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_duration(column.type):
        raise ConversionError("holds durations, which can be read as float (seconds) or int (whole seconds)")
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    text = column.cast(pa.string())
    if is_text(column.type):
        text.validate(full=True)
    return text


def _time_as_number(column: pa.Array, kind: Kind) -> pa.Array:
    stored = column.type
    if pa.types.is_time(stored) or (kind == "float" and not pa.types.is_duration(stored)):
        raise ConversionError(f"is of type {stored}, which cannot be read as {kind}")
    if pa.types.is_date(stored):
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    counts = column.cast(pa.int64()).fill_null(0).to_numpy()
    ticks = TICKS[stored.unit]
    seconds = counts / ticks if kind == "float" else counts // ticks
    return pa.array(seconds, mask=column.is_null().to_numpy(zero_copy_only=False))
