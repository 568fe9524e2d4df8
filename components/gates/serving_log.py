"""What a model server logged: the files of its log, which may not exist yet.

An unchanged run looks at them, so this module imports neither TFX nor Arrow.
"""

from __future__ import annotations

import datetime as dt
import logging
from dataclasses import replace
from typing import Any

from headrace.common.errors import NoDataError
from headrace.common.storage.files import resolve
from headrace.components.spans.find import find_spans
from headrace.components.spans.manifest import SpanManifest
from headrace.components.spans.patterns import glob_of
from headrace.components.spans.source_state import reads_files, source_patterns
from headrace.configs.schema.data import DATE_PLACEHOLDERS, DataConfig, data_from_json, placeholders
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
