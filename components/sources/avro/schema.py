"""The schema of an Avro file as Arrow types.

Avro                                   Arrow
int, long, float, double, boolean      int64, int64, float, double, bool
bytes, fixed                           binary
string, enum, uuid                     string
date, time-*, timestamp-*              date32, time, timestamp in UTC (local-timestamp-*: without a time zone)
decimal                                decimal
array, record, map                     list, struct, map
a union of null and one other type     the other type; of numbers: the widest of them
other unions, recursive records        union, which no feature can hold
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.components.sources.nested import DOT

_NO_FEATURE = pa.dense_union([pa.field("other", pa.null())])
_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_NUMBERS = [pa.int64(), pa.float32(), pa.float64()]
_MAX_DECIMAL = 38


@dataclass
class _Names:
    """The named types so far; None for a record that is not complete, which only a recursive one refers to."""

    types: dict[str, pa.DataType | None] = field(default_factory=dict)


def arrow_schema(schema: Any) -> pa.Schema | None:
    """The Arrow schema of the records; None if the file holds something else.

    schema: as fastavro parses it, with the full names of types.
    """
    found = _type(schema, _Names())
    return pa.schema(list(found)) if pa.types.is_struct(found) else None


def has_uuid(schema: Any) -> bool:
    """Whether values of the schema are read as UUIDs."""
    if isinstance(schema, Mapping):
        return schema.get("logicalType") == "uuid" or any(map(has_uuid, schema.values()))
    return isinstance(schema, Sequence) and not isinstance(schema, str) and any(map(has_uuid, schema))


def flat_types(schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of the columns, with those of records within records."""
    return {name: arrow for field in schema for name, arrow in _flat(field.name, field.type)}


def _flat(name: str, arrow: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(arrow):
        for own in arrow:
            yield from _flat(f"{name}{DOT}{own.name}", own.type)
    elif pa.types.is_list(arrow) and pa.types.is_struct(arrow.value_type):
        yield from ((inner, pa.list_(own)) for inner, own in _flat(name, arrow.value_type))
    else:
        yield name, arrow


def pruned(fields: Sequence[pa.Field], names: Collection[str], path: str = "") -> list[pa.Field]:
    """The fields that hold columns of these names, reduced to them."""
    kept = []
    for own in fields:
        below = pruned_type(own.type, names, f"{path}{own.name}")
        if below is not None:
            kept.append(pa.field(own.name, below))
    return kept


def pruned_type(arrow: pa.DataType, names: Collection[str], path: str) -> pa.DataType | None:
    """The type reduced to what these columns hold of it; None for nothing."""
    if pa.types.is_struct(arrow):
        fields = pruned(list(arrow), names, f"{path}{DOT}")
        return pa.struct(fields) if fields else None
    if pa.types.is_list(arrow) and pa.types.is_struct(arrow.value_type):
        inner = pruned_type(arrow.value_type, names, path)
        return None if inner is None else pa.list_(inner)
    return arrow if path in names else None


def _type(schema: Any, names: _Names) -> pa.DataType:
    if isinstance(schema, str):
        return _PRIMITIVE[schema] if schema in _PRIMITIVE else names.types[schema] or _NO_FEATURE
    if not isinstance(schema, Mapping):
        return _union([_type(one, names) for one in schema])
    kind = schema["type"]
    if kind in {"record", "error"}:
        names.types[schema["name"]] = None
        found = pa.struct([pa.field(one["name"], _type(one["type"], names)) for one in schema["fields"]])
    elif kind == "array":
        found = pa.list_(_type(schema["items"], names))
    elif kind == "map":
        found = pa.map_(pa.string(), _type(schema["values"], names))
    else:
        found = _logical(schema, kind) or _type(kind, names)
    if "name" in schema:
        names.types[schema["name"]] = found
    return found


def _logical(schema: Mapping[str, Any], kind: Any) -> pa.DataType | None:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        precision, scale = schema["precision"], schema.get("scale", 0)
        return pa.decimal128(precision, scale) if precision <= _MAX_DECIMAL else pa.decimal256(precision, scale)
    return pa.string() if logical == "uuid" else _LOGICAL.get(str(logical))


def _union(types: Sequence[pa.DataType]) -> pa.DataType:
    present = [one for one in types if not pa.types.is_null(one)]
    if all(one in _NUMBERS for one in present) and len(present) > 1:
        return pa.float64()
    return present[0] if len(present) == 1 else _NO_FEATURE if present else pa.null()
