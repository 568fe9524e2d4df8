"""Nested records of JSON, Avro and Parquet as columns: a column for each value in an object, named by the keys that
lead to it, joined with dots.

{"user": {"age": 3, "home": {"zip": "07"}}}     user.age is 3, user.home.zip is "07"
{"items": [{"price": 1}, {"price": 2}]}         items.price is [1, 2]

A list of objects is a multivalued column for each of their keys; an object without the key, or with null, adds no
value. Lists of lists stay as they are, and no column can hold them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.common.errors import ContradictionError
from headrace.components.sources.types import Kind, with_article

DOT = "."


class JsonObject(list[tuple[str, Any]]):
    """The members of an object, in their order, with those that occur twice."""


def json_object(members: Mapping[str, Any]) -> JsonObject:
    """A mapping as an object, with all mappings in it and in its lists."""
    return JsonObject((name, _with_objects(value)) for name, value in members.items())


def _with_objects(value: Any) -> Any:
    if isinstance(value, Mapping):
        return json_object(value)
    return [_with_objects(one) for one in value] if isinstance(value, list) else value


def parents_of(names: Iterable[str]) -> frozenset[str]:
    """The paths of the objects that hold columns of these names: `user` and `user.home` of `user.home.zip`."""
    found: set[str] = set()
    for name in names:
        while DOT in name:
            name = name.rpartition(DOT)[0]  # noqa: PLW2901
            if name in found:
                break
            found.add(name)
    return frozenset(found)


def check_objects(kinds: Mapping[str, Kind], objects: Mapping[str, str]) -> None:
    """Raise ContradictionError for a key with an object in some records and a value in others.

    objects: the paths of objects, each with a file that has one.
    """
    for path in sorted(objects):
        if kinds.get(path, "missing") != "missing":
            below = next((name for name in kinds if name.startswith(f"{path}{DOT}")), None)
            raise ContradictionError(
                f"is {with_article(kinds[path])} in some records, but an object in others"
                f"{f', which have {below!r}' if below else ''}",
                file=objects[path],
                column=path,
                hint="Correct the data, or list the columns to read in `data.columns`, with only one of the two",
            )


@dataclass(frozen=True)
class KnownPaths:
    """What is known of the columns before they are read.

    objects: the paths of objects that were seen, which are not columns where they are null; values: the columns with
    values, so that an object in their place is a mistake. A dot in the name of a column does not make it a path.
    """

    objects: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()

    def value_among(self, objects: Iterable[str]) -> str | None:
        """The first of these paths of objects that is a column with values; None if there is none."""
        return next((path for path in objects if path in self.values), None) if self.values else None


def flat_members(members: JsonObject, path: str = "") -> Iterator[tuple[str, Any]]:
    """The names of the columns that an object has values for, and the values. A name may occur twice."""
    for key, value in members:
        if isinstance(value, JsonObject):
            yield from flat_members(value, f"{path}{key}{DOT}")
        elif _is_list_of_objects(value):
            yield from _gathered(value, f"{path}{key}{DOT}")
        else:
            yield f"{path}{key}", value


def objects_in(members: JsonObject, path: str = "") -> Iterator[str]:
    """The paths of the objects in an object that have members."""
    for key, value in members:
        own = f"{path}{key}"
        for one in [value] if isinstance(value, JsonObject) else value if _is_list_of_objects(value) else ():
            if one:
                yield own
                yield from objects_in(one, f"{own}{DOT}")


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, JsonObject) for one in value)


def _gathered(objects: list[JsonObject], path: str) -> Iterator[tuple[str, list[Any] | None]]:
    """The values of each key of all objects. A key that one object has twice occurs twice here too."""
    columns: dict[str, list[Any]] = {}
    for one in objects:
        seen: set[str] = set()
        for name, value in flat_members(one, path):
            own = columns.setdefault(name, [])
            if value is not None:
                own.append(value)
            if name in seen:
                yield name, None
            seen.add(name)
    yield from ((name, values or None) for name, values in columns.items())


def flat_columns(batch: pa.RecordBatch, objects: Collection[str] = ()) -> tuple[list[str], list[pa.Array]]:
    """The names and the columns of a batch without objects. A name may occur twice.

    objects: their paths, which are not columns where they have no values.
    """
    names, columns = list[str](), list[pa.Array]()
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for name, values in _flat(field.name, column):
            if not (name in objects and is_empty(values.type)):
                names.append(name)
                columns.append(values)
    return names, columns


def flat_types(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """The names and the types of the columns that `flat_columns` returns for a batch of this schema."""
    return (each for field in schema for each in _flat_types(field.name, field.type))


def _flat_types(name: str, arrow: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(arrow):
        for field in arrow:
            yield from _flat_types(f"{name}{DOT}{field.name}", field.type)
    elif _is_list_of_structs(arrow):
        yield from ((inner, pa.list_(values)) for inner, values in _flat_types(name, arrow.value_type))
    else:
        yield name, arrow


def _is_list_of_structs(arrow: pa.DataType) -> bool:
    return bool((pa.types.is_list(arrow) or pa.types.is_large_list(arrow)) and pa.types.is_struct(arrow.value_type))


def object_paths(schema: pa.Schema) -> frozenset[str]:
    """The paths of the objects that have columns in a batch of this schema."""
    return frozenset(path for field in schema for path in _object_paths(field.name, field.type))


def _object_paths(name: str, arrow: pa.DataType) -> Iterator[str]:
    inner = arrow.value_type if pa.types.is_list(arrow) else arrow
    if pa.types.is_struct(inner) and inner.num_fields:
        yield name
        for field in inner:
            yield from _object_paths(f"{name}{DOT}{field.name}", field.type)


def is_empty(arrow: pa.DataType) -> bool:
    """Whether a type is that of a column without values: null, or lists of null."""
    return bool(pa.types.is_null(arrow.value_type if pa.types.is_list(arrow) else arrow))


def _flat(name: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if pa.types.is_struct(column.type):
        for field, values in zip(column.type, column.flatten(), strict=True):
            yield from _flat(f"{name}{DOT}{field.name}", values)
    elif _is_list_of_structs(column.type):
        rows = np.asarray(pc.list_parent_indices(column))
        for inner, values in _flat(name, column.flatten()):
            yield inner, _lists(values, rows, len(column))
    else:
        yield name, column


def _lists(values: pa.Array, rows: np.ndarray, number: int) -> pa.Array:
    """The values of each of `number` rows as a list, without nulls; null for a row without values."""
    lengths = np.bincount(rows[np.asarray(values.is_valid())], minlength=number)
    offsets = np.zeros(number + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    empty = pa.array(lengths == 0)
    return pa.ListArray.from_arrays(pa.array(offsets), values.drop_null(), mask=empty)


def settled_type(arrow: pa.DataType) -> pa.DataType | None:
    """The type without the members and lists of which no value is known; None if nothing is left."""
    if pa.types.is_struct(arrow):
        settled = ((field.name, settled_type(field.type)) for field in arrow)
        fields = [pa.field(name, own) for name, own in settled if own is not None]
        return pa.struct(fields) if fields else None
    if pa.types.is_list(arrow):
        inner = settled_type(arrow.value_type)
        return None if inner is None else pa.list_(inner)
    return None if pa.types.is_null(arrow) else arrow


def with_text_for_times(arrow: pa.DataType) -> pa.DataType:
    """The type with strings instead of dates and times."""
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(field.name, with_text_for_times(field.type)) for field in arrow])
    if pa.types.is_list(arrow):
        return pa.list_(with_text_for_times(arrow.value_type))
    return pa.string() if pa.types.is_temporal(arrow) else arrow
