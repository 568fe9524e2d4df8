"""Python values from database drivers, converted to columns."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.common.names import join_names
from headrace.components.sources.types import ARROW, LIST, Kind, kind_of_decimal, listed, widest

_KINDS: Mapping[type, Kind] = {
    type(None): "missing",
    bool: "int",
    float: "float",
    bytes: "bytes",
    bytearray: "bytes",
    memoryview: "bytes",
}
SHOWN = 10
"""Different values that are not of a type, in a message."""
_INT64 = range(-(2**63), 2**63)

NUMERIC, BOOLEAN = 1700, 16

POSTGRES: Mapping[int, Kind] = {
    **dict.fromkeys((BOOLEAN, 20, 21, 23, 26), "int"),  # bool, int8, int2, int4, oid
    **dict.fromkeys((700, 701, NUMERIC), "float"),  # float4, float8, numeric
    **dict.fromkeys((18, 19, 25, 1042, 1043, 114, 3802, 2950), "string"),  # char, name, text, ..., json, jsonb, uuid
    **dict.fromkeys((1082, 1083, 1114, 1184, 1186, 1266, 790, 869, 650, 829), "string"),  # dates, times, money, ...
    17: "bytes",
    **dict.fromkeys((1000, 1005, 1007, 1016, 1028), "int list"),
    **dict.fromkeys((1021, 1022, 1231), "float list"),
    **dict.fromkeys((1002, 1003, 1009, 1014, 1015, 2951, 1182, 1183, 1115, 1185, 1187, 1270), "string list"),
    1001: "bytes list",
}
"""Kinds by the object identifiers of PostgreSQL's built-in types (pg_type.dat), which never change."""


def kind_of_postgres(code: int, precision: int | None, scale: int | None) -> Kind | None:
    """The kind of a PostgreSQL type; None for a type that is not built in. precision, scale: those of a numeric."""
    if code == NUMERIC and precision is not None and scale is not None:
        return kind_of_decimal(precision, scale)
    return POSTGRES.get(code)


def kind_of_values(values: Sequence[Any]) -> Kind:
    """The narrowest kind that holds all values."""
    types = set(map(type, values))
    kinds = {_KINDS.get(cls, "string") for cls in types - {int, decimal.Decimal, list, tuple}}
    for cls in types & {int, decimal.Decimal}:
        numbers: list[Any] = [value for value in values if type(value) is cls]
        kinds.add(_kind_of_numbers(numbers))
    if types & {list, tuple}:
        kinds.add(kind_of_values([item for value in values if isinstance(value, list | tuple) for item in value]))
        inner = widest(list(kinds))
        return inner if inner == "missing" else listed(inner)
    return widest(list(kinds))


def _kind_of_numbers(numbers: Sequence[int] | Sequence[decimal.Decimal]) -> Kind:
    """The kind of numbers. Decimals with decimal places, even zeros, are not ints: see `kind_of_decimal`."""
    exact = [number for number in numbers if isinstance(number, decimal.Decimal)]
    if any(not number.is_finite() or int(number.as_tuple().exponent) < 0 for number in exact):
        return "float"
    return "int" if int(min(numbers)) in _INT64 and int(max(numbers)) in _INT64 else "string"


def column_of(values: Sequence[Any], kind: Kind, name: str) -> pa.Array:
    """The values as an Arrow array of a kind. Raises DataError for a value that does not fit."""
    if kind.endswith(LIST):
        return _lists(values, kind, name)
    convert = _CONVERSIONS[kind]
    if not set(map(type, values)) <= _CONVERTED_BY_ARROW[kind]:
        values = _converted(values, convert, kind, name)
    try:
        return pa.array(values, ARROW[kind])
    except (OverflowError, pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise DataError(f"a value is not of type {kind}: {error}", column=name) from None


def _lists(values: Sequence[Any], kind: Kind, name: str) -> pa.Array:
    lists = [value if value is None or isinstance(value, list | tuple) else (value,) for value in values]
    items = [item for value in lists if value is not None for item in value]
    if None in items:
        raise DataError("an array contains NULL; a list has values or is missing as a whole", column=name)
    if any(isinstance(item, list | tuple) for item in items):
        raise DataError("an array has multiple dimensions; a feature is a value or one list", column=name)
    flat = column_of(items, kind.removesuffix(LIST), name)  # type: ignore[arg-type]
    offsets, end = [], 0
    for value in lists:
        offsets.append(None if value is None else end)
        end += len(value or ())
    return pa.ListArray.from_arrays(pa.array([*offsets, end], pa.int32()), flat)


def _converted(values: Sequence[Any], convert: Callable[[Any], Any], kind: Kind, name: str) -> list[Any]:
    converted, unfit = list[Any](), dict[str, None]()
    for value in values:
        try:
            converted.append(None if value is None else convert(value))
        except (TypeError, ValueError, OverflowError, decimal.DecimalException):
            unfit[repr(value) if len(repr(value)) < 100 else f"{repr(value)[:100]}..."] = None
    if unfit:
        what = f"{join_names(unfit, SHOWN)} {'is' if len(unfit) == 1 else 'are'} not of type {kind}"
        raise DataError(what, column=name, hint="Declare another type in `data.types.{column}`")
    return converted


def _int(value: Any) -> int:
    number = int(value)
    if isinstance(value, bytes | memoryview) or (not isinstance(value, str) and number != value):
        raise ValueError(value)
    if number not in _INT64:
        raise OverflowError(value)
    return number


def _float(value: Any) -> float:
    number = float(value)
    if isinstance(value, bytes | memoryview):
        raise TypeError(value)
    if math.isinf(number) and isinstance(value, decimal.Decimal) and value.is_finite():
        raise OverflowError(value)
    return number


def _string(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return _instant(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode()
    return str(int(value) if isinstance(value, bool) else value)


def _instant(value: dt.datetime) -> str:
    """`2024-01-31 12:30:00`, or with a time zone, in UTC, `2024-01-31 11:30:00Z`, whatever the zone of the server."""
    if value.tzinfo is None:
        return value.isoformat(" ")
    return f"{value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(' ')}Z"


def _bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else _string(value).encode()


def _nothing(value: Any) -> None:
    if value != []:
        raise ValueError(value)


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "missing": _nothing,
    "int": _int,
    "float": _float,
    "string": _string,
    "bytes": _bytes,
}
_CONVERTED_BY_ARROW: Mapping[str, set[type]] = {
    "missing": {type(None)},
    "int": {int, type(None)},
    "float": {float, type(None)},
    "string": {str, type(None)},
    "bytes": {bytes, type(None)},
}
"""The types that pyarrow converts itself."""
