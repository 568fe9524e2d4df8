"""How a model server's log is read: which of its columns, and as which types."""

from __future__ import annotations

from collections.abc import Collection

from headrace.components.sources import ReadOptions, is_open_ended, open_source
from headrace.components.sources.types import types_of_schema
from headrace.components.spans.manifest import SpanManifest
from headrace.configs.schema.data import DataConfig, read_as


def as_read(data: DataConfig, columns: Collection[str]) -> DataConfig:
    """The config with the types of the log's columns, instead of a schema file: a CSV log holds texts, so it has those
    of the schema, as the training data may.

    data: how the log is read; columns: those that the gate compares; empty for all.
    """
    types = types_of_schema(data.schema_file) if data.schema_file is not None and data.source.kind == "csv" else {}
    compared = {name: kind for name, kind in types.items() if name in columns or not columns}
    return data.model_copy(update={"types": {**compared, **data.types}, "schema_file": None})


def as_logged(data: DataConfig, manifest: SpanManifest, compared: Collection[str]) -> DataConfig:
    """How the log is read: with the compared columns that it has, or all if none is compared, or it has none of them;
    and with the types of columns that it has.

    In a log whose requests may each lack columns, any of the compared ones may still appear.
    """
    options = ReadOptions(None, data.on_bad_record == "skip")
    opened = (open_source(data.source, span.paths, options, span.splits) for span in manifest.spans)
    names = {name for source in opened for name in source.columns()}
    there = tuple(name for name in compared if name in names)
    chosen = tuple(compared) if there and is_open_ended(data.source) else there
    types = {name: read_as(kind) for name, kind in data.types.items() if name in (chosen or names)}
    return data.model_copy(update={"columns": chosen or "all", "types": types})
