"""Kinds of columns: declared, as stored, or the narrowest that holds every value of the whole data.

int      every value is an int64; in text, written without leading zeros or a plus sign
float    every value is a number
string   UTF-8; of text also what would lose digits as a number: codes such as 00123, and integers beyond int64
bytes    anything
missing  there is no value at all

With ` list` behind it: a column whose examples may have any number of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from headrace.configs.data import ColumnType, DataConfig
from headrace.configs.errors import DataError

Kind = Literal["missing"] | ColumnType

SCALARS: Mapping[str, pa.DataType] = {
    "missing": pa.null(),
    "int": pa.int64(),
    "float": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
"""Each kind takes the values of the ones before it."""

LIST = " list"
INT64_DIGITS = 18
"""Every integer of so many digits is one of 64 bits."""
KINDS: tuple[Kind, ...] = ("missing", *get_args(ColumnType))
ARROW: Mapping[Kind, pa.DataType] = {
    kind: pa.list_(SCALARS[kind.removesuffix(LIST)]) if kind.endswith(LIST) else SCALARS[kind] for kind in KINDS
}


def kind_of(arrow: pa.DataType) -> Kind:
    """The kind that values of an Arrow type are read as; dates, times, booleans and decimals are strings here."""
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow):
        inner = kind_of(arrow.value_type)
        return "missing" if inner == "missing" else listed(inner)
    if pa.types.is_integer(arrow) and arrow != pa.uint64():
        return "int"
    if pa.types.is_floating(arrow):
        return "float"
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow) or pa.types.is_fixed_size_binary(arrow):
        return "bytes"
    return "missing" if pa.types.is_null(arrow) else "string"


def kind_of_decimal(digits: int, behind: int) -> Kind:
    """Of decimal numbers of so many digits, some of them behind the point, in all sources alike: int if none is, string
    if they then may be beyond int64, else float.
    """
    if behind > 0:
        return "float"
    return "int" if digits - behind <= INT64_DIGITS else "string"


def listed(kind: Kind) -> Kind:
    """The kind of a column with several values of `kind`."""
    return next(other for other in KINDS if other == kind.removesuffix(LIST) + LIST)


def widest(kinds: Sequence[Kind]) -> Kind:
    """The narrowest kind that takes the values of all of them."""
    return _widest(frozenset(kinds))


@cache
def _widest(kinds: frozenset[Kind]) -> Kind:
    order = list(SCALARS)
    inner = max((kind.removesuffix(LIST) for kind in kinds), key=order.index, default="missing")
    name = inner + LIST if any(kind.endswith(LIST) for kind in kinds) else inner
    return next(kind for kind in KINDS if kind == name)


def declared_types(data: DataConfig, columns: Sequence[str]) -> dict[str, Kind]:
    """Types from `data.types`, and for the other columns from `data.schema`."""
    declared: dict[str, Kind] = {}
    known = frozenset(columns)
    if data.schema_file is not None:
        declared.update({name: kind for name, kind in _from_schema(data.schema_file).items() if name in known})
    for name, kind in data.types.items():
        if name not in known:
            raise DataError(
                f"`data.types` gives a type to {name!r}, which is no column",
                hint=f"The columns are {', '.join(columns)}",
            )
        declared[name] = kind
    return declared


def _from_schema(path: str) -> dict[str, Kind]:
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    try:
        schema = text_format.Parse(Path(path).read_text(encoding="utf-8"), schema_pb2.Schema())
    except OSError as error:
        raise DataError(f"the schema cannot be read: {error.strerror}", file=path) from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise DataError(f"is not a schema in text format: {error}", file=path) from error
    kinds: dict[int, Kind] = {schema_pb2.INT: "int", schema_pb2.FLOAT: "float", schema_pb2.BYTES: "string"}
    return {feature.name: kinds[feature.type] for feature in schema.feature if feature.type in kinds}
