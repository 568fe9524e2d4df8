"""Arrow columns as columns of the kinds of examples, whatever stored them: Parquet, pandas, Arrow, TensorFlow.

stored type                        read as
integers, booleans                 int (false is 0, true is 1); uint64 as string if a value is beyond int64
float16, float32, float64          float
strings                            string
decimals                           float; without decimal places int, or string where they may be beyond int64
dates, times, timestamps           string: `2024-01-31`, `12:30:00`, `2024-01-31 12:30:00`, with the decimal places of
                                   the stored unit; a timestamp with a time zone in UTC, with `Z` at the end
durations                          float, in seconds
binary                             bytes
lists of these                     the same with ` list` at the end
dictionaries (categories)          their values

A declared type wins where every value can be cast: numbers in text to `int` and `float`, anything to `string`. A date
as `int` is a number of days, and a timestamp a number of whole seconds, since 1970-01-01 UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import BadRecordError, DataError, UnreadableColumnError
from headrace.components.examples.parts import room
from headrace.components.sources.types import ARROW, LIST, Kind, kind_of_decimal, listed

MAX_ROWS = 1 << 16
BATCH = 1 << 23
"""The size of a batch: the largest number of rows, and about the largest number of bytes."""

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""How many of each time unit make a second."""

WITHOUT_COLUMN = "Set `data.columns` to `used`, or to a list of the columns to read, without this one"
"""The way out where a column that nothing uses cannot be read."""

BadRows = dict[int, tuple[str, str]]
"""The rows that cannot be converted, each with its first bad column and what is wrong with the value."""


class ConversionError(Exception):
    """A column or a value that no feature can hold. The message follows the name of the column."""


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


def stored_kind(arrow: pa.DataType, *, wide: bool = True) -> Kind:
    """The kind that values of a stored type are read as. `wide`: whether a uint64 column has values beyond int64.

    Raises ConversionError for types other than values and lists of values: structs, maps, lists of lists, unknown
    extensions.
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
        raise ConversionError(f"is of type {_type_name(arrow)}, which no feature can hold")
    return kind_of_decimal(arrow.precision, arrow.scale) if types.is_decimal(arrow) else "string"


def kind_in_file(path: str, name: str, arrow: pa.DataType, *, wide: bool = True) -> Kind:
    """The kind of a column by `stored_kind`. Raises UnreadableColumnError where that raises.

    path: the file, or the function that returns the rows.
    """
    try:
        return stored_kind(arrow, wide=wide)
    except ConversionError as error:
        raise UnreadableColumnError(str(error), file=path, column=name, hint=WITHOUT_COLUMN) from None


def is_uint64(arrow: pa.DataType) -> bool:
    """Whether the type is uint64 or a list of it, whose values decide the kind."""
    arrow = _plain(arrow)
    return bool(arrow == pa.uint64() or (holds_lists(arrow) and _plain(arrow.value_type) == pa.uint64()))


def beyond_int64(column: pa.Array) -> bool:
    """Whether a column of uint64, or of lists of it, has a value beyond int64."""
    values = _values(column)
    largest = pc.max(values.flatten() if holds_lists(values.type) else values).as_py()
    return largest is not None and largest > np.iinfo(np.int64).max


def _list_kind(inner: pa.DataType, wide: bool) -> Kind:
    if holds_lists(inner):
        raise ConversionError("holds lists of lists; a feature is a single value or one list of values")
    kind = stored_kind(inner, wide=wide)
    return "missing" if kind == "missing" else listed(kind)


def text_kind(kind: Kind) -> Kind:
    """The kind with strings instead of numbers."""
    return "string list" if kind.endswith(LIST) else "string"


def holds_lists(arrow: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(arrow)
        or types.is_large_list(arrow)
        or types.is_fixed_size_list(arrow)
        or types.is_list_view(arrow)
        or types.is_large_list_view(arrow)
    )


def can_be_stored(arrow: pa.DataType) -> bool:
    """Whether a column of this type can be read as it is: numbers, dates and times, and lists of these or of texts."""
    types = pa.types
    inner = arrow.value_type if types.is_list(arrow) or types.is_large_list(arrow) else arrow
    if inner is not arrow and (types.is_string(inner) or types.is_large_string(inner)):
        return True
    numbers = types.is_boolean(inner) or types.is_integer(inner) or types.is_floating(inner)
    return bool(numbers or types.is_decimal(inner) or types.is_temporal(inner))


def can_be_restored(arrow: pa.DataType, kind: Kind) -> bool:
    """Whether a column of this type that is read as the kind can be cast back: the same numbers, texts or lists."""
    types = pa.types
    if types.is_dictionary(arrow):
        return kind == "string" and types.is_string(arrow.value_type)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        inner = arrow.value_type
        plain = types.is_integer(inner) or types.is_floating(inner) or types.is_string(inner)
        return bool(plain and stored_kind(arrow, wide=False) == kind)
    if kind == "int":
        return bool(types.is_boolean(arrow) or arrow == pa.uint64())
    return bool(types.is_large_string(arrow) if kind == "string" else kind == "bytes" and types.is_large_binary(arrow))


def always_fits(arrow: pa.DataType, kind: Kind) -> bool:
    """Whether every value of a stored type is certain to be of the kind, so that no value has to be checked."""
    arrow = _plain(arrow)
    if pa.types.is_null(arrow):
        return True
    number = pa.types.is_boolean(arrow) or (pa.types.is_integer(arrow) and arrow != pa.uint64())
    if kind in ("int", "float") and number:
        return True
    if kind == "string":
        return not (holds_lists(arrow) or _is_text(arrow) or _is_bytes(arrow) or pa.types.is_duration(arrow))
    return not holds_lists(arrow) and stored_kind(arrow) == kind


def convert(column: pa.Array, kind: Kind) -> pa.Array:
    """The column in the Arrow type of a kind; float32 stays float32. Raises ConversionError if a value does not fit.

    Of the kind `stored`, it is the column itself.
    """
    if kind == "stored" or (kind in ("int", "float") and column.type == ARROW[kind]):
        return column
    column = _values(column)
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
        return (column if _is_bytes(stored) else _as_text(column)).cast(pa.binary())
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
    if _is_text(column.type):
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


def _values(column: pa.Array) -> pa.Array:
    """The column with dictionaries and run-length encoding decoded."""
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


def _type_name(arrow: pa.DataType) -> str:
    names = {"is_struct": "struct", "is_map": "map", "is_union": "union"}
    return next((name for test, name in names.items() if getattr(pa.types, test)(arrow)), str(arrow))
