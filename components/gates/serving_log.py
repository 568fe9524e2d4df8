"""What a model server logged: the files of its log, which may not exist yet. This module imports no TFX."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from headrace.common.errors import NoDataError
from headrace.components.example_gen.finding import reads_files, source_patterns
from headrace.components.example_gen.sources import ReadOptions, open_source
from headrace.components.example_gen.sources.base import OPEN_ENDED
from headrace.components.example_gen.spans.find import find_spans
from headrace.components.example_gen.spans.manifest import SpanManifest
from headrace.components.example_gen.spans.patterns import glob_of
from headrace.components.example_gen.storage import resolve
from headrace.components.example_gen.types import types_of_schema
from headrace.configs.schema.data import DATE_PLACEHOLDERS, DataConfig, data_from_json, placeholders, read_as
from headrace.configs.schema.gates import SKEW_SOURCE
from headrace.configs.schema.sources import FileSource

logger = logging.getLogger(__name__)


def list_log(log: Any, data: str, code: str = "", as_of: Any = None) -> None:  # noqa: ARG001 - part of the node
    """What the component ServingLog does; its arguments are documented there."""
    found = find_log(data_from_json(data, SKEW_SOURCE), as_of.value if as_of else "")
    logger.info(f"files: {len(found.paths)}")
    log.value = found.to_json()


def find_log(data: DataConfig, as_of: str) -> SpanManifest:
    """The spans of the log, without files of no bytes; no spans if nothing was logged.

    data: how the log is read; as_of: the date of the run, after which no span of the log counts; "" for none.
    """
    there = _with_files(data)
    if there is None:
        return SpanManifest(())
    patterns = source_patterns(there.source) if isinstance(there.source, FileSource) else ()
    if placeholders(patterns) >= DATE_PLACEHOLDERS:
        there = there.model_copy(update={"run_date": as_of or str(dt.datetime.now(dt.UTC).date())})
    try:
        found = find_spans(there)
    except NoDataError as error:
        logger.info(str(error))
        return SpanManifest(())
    if not reads_files(data.source):
        return found
    spans = [replace(span, files=tuple(file for file in span.files if file.size)) for span in found.spans]
    return replace(found, spans=tuple(span for span in spans if span.files))


def as_read(data: DataConfig, columns: Collection[str]) -> DataConfig:
    """The config with the types of the log's columns, instead of a schema file: a CSV log holds texts, so it has those
    of the schema, as the training data may.

    data: how the log is read; columns: those that the gate compares; empty for all.
    """
    types = types_of_schema(data.schema_file) if data.schema_file is not None and data.source.kind == "csv" else {}
    compared = {name: kind for name, kind in types.items() if name in columns or not columns}
    return data.model_copy(update={"types": {**compared, **data.types}, "schema_file": None})


def _with_files(data: DataConfig) -> DataConfig | None:
    """The config with only those of its patterns that match a file; None if none does."""
    if not isinstance(data.source, FileSource):
        return data
    there = []
    for pattern in data.source.patterns:
        try:
            resolve(glob_of(pattern))
        except NoDataError as error:
            logger.info(str(error))
        else:
            there.append(pattern)
    if not there or len(there) == len(data.source.patterns):
        return data if there else None
    return data.model_copy(update={"source": data.source.model_copy(update={"path": tuple(there)})})


def as_logged(data: DataConfig, manifest: SpanManifest, compared: Collection[str]) -> DataConfig:
    """How the log is read: with the compared columns that it has, or all if none is compared, or it has none of them;
    and with the types of columns that it has.

    In a log whose requests may each lack columns, any of the compared ones may still appear.
    """
    options = ReadOptions(None, data.on_bad_record == "skip")
    opened = (open_source(data.source, span.paths, options, span.splits) for span in manifest.spans)
    names = {name for source in opened for name in source.columns()}
    there = tuple(name for name in compared if name in names)
    chosen = tuple(compared) if there and data.source.kind in OPEN_ENDED else there
    types = {name: read_as(kind) for name, kind in data.types.items() if name in (chosen or names)}
    return data.model_copy(update={"columns": chosen or "all", "types": types})
