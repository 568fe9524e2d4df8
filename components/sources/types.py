"""Kinds of columns: declared, as stored, or the narrowest that holds every value of all the data.

int      every value is an int64; in text, without leading zeros or a plus sign
float    every value is a number
string   UTF-8; in text also what would lose digits as a number: codes such as 00123, and integers beyond int64
bytes    anything
missing  no values at all
stored   the type of the source, unchanged; a feature that is read so is converted before the model gets it

The suffix ` list` makes a column multivalued: an example has any number of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import pyarrow as pa

from headrace.common.errors import DataError
from headrace.configs.schema.data import ColumnType, DataConfig, read_as

Kind = Literal["missing", "stored"] | ColumnType

SCALARS: Mapping[str, pa.DataType] = {
    "missing": pa.null(),
    "int": pa.int64(),
    "float": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
"""Each kind holds the values of the kinds before it."""

LIST = " list"
INT64_DIGITS = 18
"""Every integer of this many digits fits into 64 bits."""
KINDS: tuple[Kind, ...] = ("missing", *get_args(ColumnType))
ARROW: Mapping[Kind, pa.DataType] = {
    kind: pa.list_(SCALARS[kind.removesuffix(LIST)]) if kind.endswith(LIST) else SCALARS[kind] for kind in KINDS
}


def kind_of(arrow: pa.DataType) -> Kind:
    """The kind that an Arrow type is read as; dates, times, booleans and decimals are strings here."""
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


def kind_of_decimal(precision: int, scale: int) -> Kind:
    """The kind of decimal numbers, in all sources: float if there are digits after the point (`scale`); otherwise int,
    or string if they may exceed int64.
    """
    if scale > 0:
        return "float"
    return "int" if precision - scale <= INT64_DIGITS else "string"


def listed(kind: Kind) -> Kind:
    """The kind of a multivalued column of `kind`."""
    return next(other for other in KINDS if other == kind.removesuffix(LIST) + LIST)


def widest(kinds: Sequence[Kind]) -> Kind:
    """The narrowest kind that holds the values of all these kinds."""
    return _widest(frozenset(kinds))


@cache
def _widest(kinds: frozenset[Kind]) -> Kind:
    order = list(SCALARS)
    inner = max((kind.removesuffix(LIST) for kind in kinds), key=order.index, default="missing")
    name = inner + LIST if any(kind.endswith(LIST) for kind in kinds) else inner
    return next(kind for kind in KINDS if kind == name)


def declared_types(data: DataConfig, columns: Sequence[str]) -> dict[str, Kind]:
    """The types from `data.types`, and for other columns from `data.schema`. Raises DataError for an unknown column."""
    declared: dict[str, Kind] = {}
    known = frozenset(columns)
    if data.schema_file is not None:
        declared.update({name: kind for name, kind in types_of_schema(data.schema_file).items() if name in known})
    for name, kind in data.types.items():
        if name not in known:
            raise DataError(
                f"`data.types` declares {name!r}, which is not a column",
                hint=f"The columns are {', '.join(columns)}",
            )
        declared[name] = read_as(kind)
    return declared


def types_of_schema(path: str) -> dict[str, Kind]:
    """The types that a schema file declares. Raises DataError if it cannot be read."""
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


def first_duplicate(names: Iterable[str]) -> str | None:
    """The first column name that occurs a second time; None if all differ. Takes one pass: names may be many."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def with_article(kind: str) -> str:
    """The kind in a sentence: an int, a float list."""
    return f"an {kind}" if kind.startswith("int") else f"a {kind}" if kind != "missing" else "missing"
