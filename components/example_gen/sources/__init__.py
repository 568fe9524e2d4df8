"""The kinds of data sources, one module or folder each. To add one, write it and add a line to the registry.

source = open_source(config.data.source)
source.columns()          # quick: reads a header
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.components.example_gen.skips import Skipped
from headrace.components.example_gen.sources.arrays.source import Arrays
from headrace.components.example_gen.sources.base import ParallelMap, ReadOptions, ScanResult, Source, serial_map
from headrace.components.example_gen.sources.bigquery import BigqueryRows
from headrace.components.example_gen.sources.csv.source import CsvFiles
from headrace.components.example_gen.sources.images.source import ImageFiles
from headrace.components.example_gen.sources.jsonl.source import JsonlFiles
from headrace.components.example_gen.sources.parquet.source import ParquetFiles
from headrace.components.example_gen.sources.sql.source import SqlRows
from headrace.components.example_gen.sources.text.source import TextFiles
from headrace.components.example_gen.sources.tfds.source import TfdsExamples
from headrace.components.example_gen.sources.tfrecord.source import TfrecordFiles
from headrace.components.example_gen.storage import FileState, resolve
from headrace.configs.schema.sources import FileSource, SourceConfig

__all__ = [
    "ParallelMap",
    "ReadOptions",
    "ScanResult",
    "Skipped",
    "Source",
    "find_files",
    "is_fork_safe",
    "open_source",
    "reads_files",
    "serial_map",
    "source_patterns",
    "source_state",
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
"""The class of each kind. Slow imports happen when it reads, not here.

A class has a class method `open(source, files, options)`, which returns a Source, and may have:

- `state(source)`, if the data is not in files: the FileStates that make up its fingerprint;
- `find(source)`, if `path` alone does not name the files: the paths of the files;
- `patterns(source)`, if its paths have a meaning of their own: the paths as glob patterns;
- `fork_safe = True`, if reading local files starts no threads and opens no connections that a forked child would
  inherit.
"""


def open_source(source: SourceConfig, files: Sequence[str] | None = None, options: ReadOptions | None = None) -> Source:
    """The data that `data.source` names. `files`: the files to read; None: find them now."""
    opened: Source = _class(source).open(source, files, options or ReadOptions())
    return opened


def source_state(source: SourceConfig) -> list[FileState] | None:
    """The present state of data that is not found by path; None for data that is."""
    state = getattr(_class(source), "state", None)
    return None if state is None else state(source)


def reads_files(source: SourceConfig) -> bool:
    """Whether the data is in files. Unlike `source_state`, this never runs a query or a function."""
    return not hasattr(_class(source), "state") or getattr(source, "path", None) is not None


def find_files(source: SourceConfig) -> list[str]:
    """The paths of the present files, regardless of spans. Raises DataError if there are none."""
    find = getattr(_class(source), "find", None)
    if find is not None:
        return list(find(source))
    return resolve(source_patterns(source))


def is_fork_safe(source: SourceConfig) -> bool:
    """Whether a process that has read local files of this kind can be forked."""
    return getattr(_class(source), "fork_safe", False)


def source_patterns(source: SourceConfig) -> list[str]:
    """The paths of the config as glob patterns; empty for data that is not found by path."""
    patterns = getattr(_class(source), "patterns", None)
    if patterns is not None:
        return list(patterns(source))
    if not isinstance(source, FileSource):
        return []
    return [source.path] if isinstance(source.path, str) else list(source.path)


def _class(source: SourceConfig) -> Any:
    return _KINDS[source.kind]
