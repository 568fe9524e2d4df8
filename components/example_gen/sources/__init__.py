"""Data sources, one file for each kind. Adding one means adding a file here and a line to the registry.

source = open_source(config.data.source)
source.columns()          # quick: reads a header
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.components.example_gen.sources.arrays import Arrays
from headrace.components.example_gen.sources.base import LIGHT, Reading, Skipped, Source, Spread, Survey, in_place
from headrace.components.example_gen.sources.bigquery import BigqueryRows
from headrace.components.example_gen.sources.csv import CsvFiles
from headrace.components.example_gen.sources.images import ImageFiles
from headrace.components.example_gen.sources.jsonl import JsonlFiles
from headrace.components.example_gen.sources.parquet import ParquetFiles
from headrace.components.example_gen.sources.sql import SqlRows
from headrace.components.example_gen.sources.text import TextFiles
from headrace.components.example_gen.sources.tfds import TfdsExamples
from headrace.components.example_gen.sources.tfrecord import TfrecordFiles
from headrace.components.example_gen.storage import FileState, resolve
from headrace.configs.sources import FileSource, SourceConfig

__all__ = [
    "LIGHT",
    "Reading",
    "Skipped",
    "Source",
    "Spread",
    "Survey",
    "files_of",
    "in_place",
    "is_files",
    "open_source",
    "patterns_of",
    "reads_alone",
    "state_of",
]

_KINDS: dict[str, Any] = {
    "arrays": Arrays,
    "bigquery": BigqueryRows,
    "csv": CsvFiles,
    "images": ImageFiles,
    "jsonl": JsonlFiles,
    "parquet": ParquetFiles,
    "sql": SqlRows,
    "text": TextFiles,
    "tfds": TfdsExamples,
    "tfrecord": TfrecordFiles,
}
"""Each kind's class; it imports what is slow to import only when it reads. Its class method
`open(source, files, reading)` gives a Source. What is not files has a class method `state(source)`, which gives the
FileStates that the fingerprint is made of; what is not found by `path` alone has a class method `find(source)`, which
gives the paths of its files, and where paths have a meaning of their own, `patterns(source)` gives them as patterns.
"""

_ALONE = {"csv", "jsonl", "parquet", "text"}
"""Read by this process alone: TensorFlow's threads and connections to servers would not survive a fork."""


def open_source(source: SourceConfig, files: Sequence[str] | None = None, reading: Reading | None = None) -> Source:
    """The data behind `data.source`. `files`: the files to read, where they are known; None: look for them now."""
    opened: Source = _class(source).open(source, files, reading or Reading())
    return opened


def state_of(source: SourceConfig) -> list[FileState] | None:
    """The present state of data that is not found by paths; None where it is."""
    state = getattr(_class(source), "state", None)
    return None if state is None else state(source)


def is_files(source: SourceConfig) -> bool:
    """Whether the data lies in files; asks for nothing, where `state_of` may run a query or a function."""
    return not hasattr(_class(source), "state") or getattr(source, "path", None) is not None


def files_of(source: SourceConfig) -> list[str]:
    """The paths of the files that there are now, spans aside. Raises DataError if there are none."""
    find = getattr(_class(source), "find", None)
    if find is not None:
        return list(find(source))
    return resolve(patterns_of(source))


def reads_alone(source: SourceConfig) -> bool:
    """Whether reading local files of this kind leaves nothing in a process that a fork of it could not use."""
    return source.kind in _ALONE


def patterns_of(source: SourceConfig) -> list[str]:
    """The paths of the config as patterns of files; empty for what is not found by its paths."""
    patterns = getattr(_class(source), "patterns", None)
    if patterns is not None:
        return list(patterns(source))
    if not isinstance(source, FileSource):
        return []
    return [source.path] if isinstance(source.path, str) else list(source.path)


def _class(source: SourceConfig) -> Any:
    return _KINDS[source.kind]
