"""Reads a schema (TensorFlow Metadata, text format), curated by hand or written by SchemaGen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from google.protobuf import text_format
from tensorflow_metadata.proto.v0.schema_pb2 import FeatureType, Schema

from headrace.common.errors import DataError
from headrace.configs.schema.data import ColumnType, bits_column

COLUMN_TYPES: dict[int, ColumnType] = {FeatureType.INT: "int", FeatureType.FLOAT: "float", FeatureType.BYTES: "string"}
_HINT = (
    "A schema is a text file like those under SchemaGen in the artifacts: "
    'feature { name: "fare" type: FLOAT } for each column.'
)


def read_schema(path: str | Path) -> Schema:
    """The schema in a text file. Raises DataError with the file, the line and what is wrong there."""
    schema = Schema()
    try:
        text = Path(path).read_text(encoding="utf-8")
        text_format.Parse(text, schema)
    except OSError as error:
        what = f"the schema cannot be read: {error.strerror}"
        raise DataError(what, file=str(path), hint="Correct `data.schema`.") from None
    except UnicodeDecodeError:
        raise DataError("the schema is not UTF-8 text", file=str(path), hint=_HINT) from None
    except text_format.ParseError as error:
        what = re.sub(r"^\d+:\d+ : ", "", str(error))
        raise DataError(
            f"the schema cannot be read: {what}", file=str(path), line=error.GetLine(), hint=_HINT
        ) from None
    _check(schema, str(path))
    return schema


def check_float64(schema: Schema, path: str, columns: Iterable[str]) -> None:
    """Raise DataError if a curated schema lacks the column with the bits of one of these, as it has all others."""
    known = {feature.name: feature.type for feature in schema.feature}
    for column in columns:
        bits = bits_column(column)
        if column in known and known.get(bits) != FeatureType.INT:
            what = f"the schema has no integers {bits!r}, which hold the float64 values of {column!r}"
            hint = f'Add to it: feature {{ name: "{bits}" type: INT }}'
            raise DataError(what, file=path, column=column, hint=f"{hint}, or declare `data.types.{column}: float`.")


def column_types(schema: Schema) -> dict[str, ColumnType]:
    """The declared type of each column that has one."""
    return {feature.name: COLUMN_TYPES[feature.type] for feature in schema.feature if feature.type in COLUMN_TYPES}


def _check(schema: Schema, path: str) -> None:
    names = [feature.name for feature in schema.feature]
    if not names:
        raise DataError("the schema does not name any column", file=path, hint=_HINT)
    if "" in names:
        raise DataError("a feature in the schema has no name", file=path, hint=_HINT)
    for name in sorted(name for name, count in Counter(names).items() if count > 1):
        raise DataError("the schema names this column twice", file=path, column=name, hint="Keep one of the two.")
    domains = {domain.name for domain in schema.string_domain}
    for feature in schema.feature:
        if feature.domain and feature.domain not in domains:
            what = f"the schema has no string_domain {feature.domain!r}"
            raise DataError(what, file=path, column=feature.name, hint="Add it, or correct the name after `domain:`.")
