"""Types of columns: declared, or the narrowest that holds every value of the whole data.

int      every value is an int64, written without leading zeros or a plus sign
float    every value is a number
string   anything else; also what would lose digits as a number: codes such as 00123, and integers beyond int64
missing  there is no value at all
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa

from configs.data import DataConfig
from configs.errors import DataError

Kind = Literal["missing", "int", "float", "string"]
WIDENING: tuple[Kind, ...] = ("missing", "int", "float", "string")
"""Each kind takes the values of the ones before it."""

ARROW: Mapping[Kind, pa.DataType] = {
    "missing": pa.null(),
    "int": pa.int64(),
    "float": pa.float64(),
    "string": pa.string(),
}


def kind_of(arrow: pa.DataType) -> Kind:
    """The kind that a type inferred by pyarrow stands for; its dates, times and booleans are strings here."""
    return next((kind for kind, known in ARROW.items() if known == arrow), "string")


def widest(kinds: Sequence[Kind]) -> Kind:
    """The narrowest kind that takes the values of all of them."""
    return max(kinds, key=WIDENING.index, default="missing")


def declared_types(data: DataConfig, columns: Sequence[str]) -> dict[str, Kind]:
    """Types from `data.types`, and for the other columns from `data.schema`."""
    declared: dict[str, Kind] = {}
    if data.schema_file is not None:
        declared.update({name: kind for name, kind in _from_schema(data.schema_file).items() if name in columns})
    for name, kind in data.types.items():
        if name not in columns:
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
