"""Columns that are stored with a type, as Parquet, pandas and Arrow store them, as columns of the kinds of examples.

stored                             is read as
integers; booleans                 int (false 0, true 1); uint64 as string where a value is beyond int64
float16, float32, float64          float
strings                            string
decimals                           float; without digits behind the point int, or string where they may be beyond int64
dates, times, timestamps           string: `2024-01-31`, `12:30:00`, `2024-01-31 12:30:00`, with as many digits behind
                                   the seconds as are stored; a timestamp with a time zone in UTC, with `Z` at the end
durations                          float, in seconds
binary                             bytes
lists of these                     the same with ` list` behind it
dictionaries (categories)          their values

A declared type wins where every value can be cast: numbers in text to `int` and `float`, anything to `string`; a date
as `int` is days, and a timestamp whole seconds, since 1970-01-01 UTC.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.components.example_gen.types import ARROW, LIST, Kind, kind_of_decimal, listed

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Of each unit in a second."""


class UnfitError(Exception):
    """A column or a value that no feature can hold, in words that follow the column's name."""


def stored_kind(arrow: pa.DataType, *, wide: bool = True) -> Kind:
    """The kind that values of a stored type are read as. `wide`: whether a uint64 is beyond int64.

    Raises UnfitError for what is no value and no list of values: structs, maps, lists of lists, unknown extensions.
    """
    arrow = _plain(arrow)
    types = pa.types
    if holds_lists(arrow):
        return _list_kind(_plain(arrow.value_type), wide)
    if types.is_null(arrow):
        return "missing"
    if types.is_boolean(arrow) or types.is_integer(arrow):
        return "string" if arrow == pa.uint64() and wide else "int"
    if types.is_floating(arrow) or types.is_duration(arrow):
        return "float"
    if _is_bytes(arrow):
        return "bytes"
    if not (_is_text(arrow) or types.is_decimal(arrow) or types.is_temporal(arrow)):
        raise UnfitError(f"is of the type {_named(arrow)}, which no feature can hold")
    return kind_of_decimal(arrow.precision, arrow.scale) if types.is_decimal(arrow) else "string"


def is_uint64(arrow: pa.DataType) -> bool:
    """Whether the values decide the kind: those of uint64, and lists of it."""
    arrow = _plain(arrow)
    return bool(arrow == pa.uint64() or (holds_lists(arrow) and _plain(arrow.value_type) == pa.uint64()))


def beyond_int64(column: pa.Array) -> bool:
    """Whether a uint64 column, or one of lists of it, holds a value beyond int64."""
    values = _values(column)
    largest = pc.max(values.flatten() if holds_lists(values.type) else values).as_py()
    return largest is not None and largest > np.iinfo(np.int64).max


def _list_kind(inner: pa.DataType, wide: bool) -> Kind:
    if holds_lists(inner):
        raise UnfitError("holds lists of lists; a feature is a value or one list of values")
    kind = stored_kind(inner, wide=wide)
    return "missing" if kind == "missing" else listed(kind)


def as_text_kind(kind: Kind) -> Kind:
    """The same with strings in the place of numbers."""
    return "string list" if kind.endswith(LIST) else "string"


def holds_lists(arrow: pa.DataType) -> bool:
    """Whether an Arrow type is one of the kinds of lists."""
    types = pa.types
    return bool(
        types.is_list(arrow)
        or types.is_large_list(arrow)
        or types.is_fixed_size_list(arrow)
        or types.is_list_view(arrow)
        or types.is_large_list_view(arrow)
    )


def always_fits(arrow: pa.DataType, kind: Kind) -> bool:
    """Whether every value of a stored type is certain to be one of the kind, so that nobody needs to look."""
    arrow = _plain(arrow)
    if pa.types.is_null(arrow):
        return True
    number = pa.types.is_boolean(arrow) or (pa.types.is_integer(arrow) and arrow != pa.uint64())
    if kind in ("int", "float") and number:
        return True
    if kind == "string":
        return not (holds_lists(arrow) or _is_text(arrow) or _is_bytes(arrow) or pa.types.is_duration(arrow))
    return not holds_lists(arrow) and stored_kind(arrow) == kind


def as_kind(column: pa.Array, kind: Kind) -> pa.Array:
    """The column in the Arrow type of a kind; float32 stays as it is. Raises UnfitError if a value does not fit."""
    if kind in ("int", "float") and column.type == ARROW[kind]:
        return column
    column = _values(column)
    if pa.types.is_null(column.type) or _only_empty_lists(column):
        return pa.nulls(len(column), ARROW[kind])
    if kind.endswith(LIST):
        return _as_lists(column, kind.removesuffix(LIST))
    if holds_lists(column.type):
        raise UnfitError(f"holds lists, and cannot be read as {kind}; `{kind} list` is the type of lists")
    try:
        return _as_values(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnfitError(f"cannot be read as {kind}: {error}") from None


def unfit_rows(column: pa.Array, kind: Kind) -> Iterator[tuple[int, str]]:
    """The rows whose value does not fit, and what is wrong with each."""
    pending = [(0, column)]
    while pending:
        start, rows = pending.pop()
        try:
            as_kind(rows, kind)
        except UnfitError as error:
            if len(rows) == 1:
                yield start, str(error)
            else:
                half = len(rows) // 2
                pending += [(start + half, rows.slice(half)), (start, rows.slice(0, half))]


def _only_empty_lists(column: pa.Array) -> bool:
    """Whether it is a column of lists without a type of values, as there is none."""
    return holds_lists(column.type) and pa.types.is_null(column.type.value_type) and not len(column.flatten())


def _as_lists(column: pa.Array, inner: str) -> pa.Array:
    if holds_lists(column.type):
        column = column.cast(pa.list_(column.type.value_type))
        values, lengths = column.flatten(), pc.list_value_length(column).fill_null(0)
        if values.null_count:
            raise UnfitError("holds a list with a null in it; a list has values, or is missing as a whole")
    else:
        values, lengths = column.drop_null(), column.is_valid()
    offsets = np.zeros(len(column) + 1, np.int32)
    np.cumsum(lengths.cast(pa.int32()).to_numpy(zero_copy_only=False), out=offsets[1:])
    kind: Kind = inner  # type: ignore[assignment]
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(pa.array(offsets), as_kind(values, kind), mask=mask)


def _as_values(column: pa.Array, kind: Kind) -> pa.Array:
    types, stored = pa.types, column.type
    if kind == "string":
        return _as_text(column)
    if kind == "bytes":
        return (column if _is_bytes(stored) else _as_text(column)).cast(pa.binary())
    if kind == "missing":
        raise UnfitError("has values, but is of the kind `missing`")
    if types.is_date(stored) or types.is_timestamp(stored) or types.is_duration(stored) or types.is_time(stored):
        return _time_as_number(column, kind)
    if kind == "int":
        return column.cast(pa.int64())
    return _as_float(column)


def _as_float(column: pa.Array) -> pa.Array:
    types, stored = pa.types, column.type
    if types.is_decimal(stored):
        return column.cast(pa.string()).cast(pa.float64())  # Arrow's own cast makes 7.250000000000001 of 7.25
    if types.is_float16(stored) or types.is_float32(stored):
        return column.cast(pa.float32())
    return column.cast(pa.float64(), safe=False) if types.is_integer(stored) else column.cast(pa.float64())


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_duration(column.type):
        raise UnfitError("holds durations, which are read as float (seconds) or int (whole seconds)")
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    text = column.cast(pa.string())
    if _is_text(column.type):
        text.validate(full=True)
    return text


def _time_as_number(column: pa.Array, kind: Kind) -> pa.Array:
    stored = column.type
    if pa.types.is_time(stored) or (kind == "float" and not pa.types.is_duration(stored)):
        raise UnfitError(f"is of the type {stored}, which cannot be read as {kind}")
    if pa.types.is_date(stored):
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    counts = column.cast(pa.int64()).fill_null(0).to_numpy()
    ticks = TICKS[stored.unit]
    seconds = counts / ticks if kind == "float" else counts // ticks
    return pa.array(seconds, mask=column.is_null().to_numpy(zero_copy_only=False))


def _values(column: pa.Array) -> pa.Array:
    """The column with dictionaries and repeated runs written out."""
    if pa.types.is_dictionary(column.type):
        return _values(column.dictionary_decode())
    if pa.types.is_run_end_encoded(column.type):
        return _values(pc.run_end_decode(column))
    return column


def _plain(arrow: pa.DataType) -> pa.DataType:
    while pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        arrow = arrow.value_type
    return arrow


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def _is_bytes(arrow: pa.DataType) -> bool:
    types = pa.types
    fixed = types.is_fixed_size_binary(arrow) and not types.is_decimal(arrow)
    return bool(fixed or types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_binary_view(arrow))


def _named(arrow: pa.DataType) -> str:
    names = {"is_struct": "struct", "is_map": "map", "is_union": "union"}
    return next((name for test, name in names.items() if getattr(pa.types, test)(arrow)), str(arrow))
