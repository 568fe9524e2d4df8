"""Arrow types that a source stores, and the kind that each is read as.

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
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import UnreadableColumnError
from headrace.components.sources.types import LIST, Kind, kind_of_decimal, listed

WITHOUT_COLUMN = "Set `data.columns` to `used`, or to a list of the columns to read, without this one"
"""The way out where a column that nothing uses cannot be read."""


class ConversionError(Exception):
    """A column or a value that no feature can hold. The message follows the name of the column."""


def stored_kind(arrow: pa.DataType, *, wide: bool = True) -> Kind:
    """The kind that values of a stored type are read as. `wide`: whether a uint64 column has values beyond int64.

    Raises ConversionError for types other than values and lists of values: structs, maps, lists of lists, unknown
    extensions.
    """
    arrow = plain_type(arrow)
    types = pa.types
    if holds_lists(arrow):
        return _list_kind(plain_type(arrow.value_type), wide)
    if types.is_null(arrow):
        return "missing"
    if types.is_boolean(arrow) or types.is_integer(arrow):
        return "string" if arrow == pa.uint64() and wide else "int"
    if types.is_floating(arrow) or types.is_duration(arrow):
        return "float"
    if is_bytes(arrow):
        return "bytes"
    if not (is_text(arrow) or types.is_decimal(arrow) or types.is_temporal(arrow)):
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
    arrow = plain_type(arrow)
    return bool(arrow == pa.uint64() or (holds_lists(arrow) and plain_type(arrow.value_type) == pa.uint64()))


def beyond_int64(column: pa.Array) -> bool:
    """Whether a column of uint64, or of lists of it, has a value beyond int64."""
    values = stored_values(column)
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
    arrow = plain_type(arrow)
    if pa.types.is_null(arrow):
        return True
    number = pa.types.is_boolean(arrow) or (pa.types.is_integer(arrow) and arrow != pa.uint64())
    if kind in ("int", "float") and number:
        return True
    if kind == "string":
        return not (holds_lists(arrow) or is_text(arrow) or is_bytes(arrow) or pa.types.is_duration(arrow))
    return not holds_lists(arrow) and stored_kind(arrow) == kind


def stored_values(column: pa.Array) -> pa.Array:
    """The column with dictionaries and run-length encoding decoded."""
    if pa.types.is_dictionary(column.type):
        return stored_values(column.dictionary_decode())
    if pa.types.is_run_end_encoded(column.type):
        return stored_values(pc.run_end_decode(column))
    return column


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """The type of the values, if dictionaries or run-length encoding store them."""
    while pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        arrow = arrow.value_type
    return arrow


def is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def is_bytes(arrow: pa.DataType) -> bool:
    types = pa.types
    fixed = types.is_fixed_size_binary(arrow) and not types.is_decimal(arrow)
    return bool(fixed or types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_binary_view(arrow))


def _type_name(arrow: pa.DataType) -> str:
    names = {"is_struct": "struct", "is_map": "map", "is_union": "union"}
    return next((name for test, name in names.items() if getattr(pa.types, test)(arrow)), str(arrow))
