"""Facts of a column of made-up values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.components.inference.facts import ColumnFacts, facts_of
from headrace.components.sources.types import Kind


def facts(values: list[Any], kind: Kind, name: str = "x") -> ColumnFacts:
    """Of values of this kind."""
    types = {"int": pa.int64(), "float": pa.float64(), "string": pa.string(), "bytes": pa.binary()}
    scalar = types[kind.removesuffix(" list")]
    array = pa.chunked_array([pa.array(values, pa.list_(scalar) if kind.endswith(" list") else scalar)])
    return facts_of(name, kind, array)
