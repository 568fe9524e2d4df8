"""The readers of the kinds of data sources, one module or folder each. The class of a kind's settings names its reader.

source = open_source(config.data.source)
source.columns()          # quick: reads a header

A reader is a class with a class method `open(source, files, options)`, which returns a `base.Source`. It may have:

- `state(source)`, if the data is not in files: the FileStates that make up its fingerprint;
- `find(source)`, if `path` alone does not name the files: the paths of the files;
- `patterns(source)`, if its paths have a meaning of their own: the paths as glob patterns;
- `open_ended = True`, if a record may lack columns that others have, so that the columns of two splits may differ;
- `check_splits(parts)`, if the data of two splits can overlap although their paths differ: raises DataError, given the
  parts of each split;
- `fork_safe = True`, if reading local files starts no threads and opens no connections that a forked child would
  inherit.

Slow imports happen when it reads, not when its module is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.common.errors import RunError
from headrace.components.example_gen.skips import Skipped
from headrace.components.example_gen.sources.base import (
    ParallelMap,
    ReadOptions,
    RowScanner,
    ScanResult,
    Source,
    serial_map,
)
from headrace.components.example_gen.sources.by_split import RowScannerBySplit, SourceBySplit
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
    "may_share_files",
    "open_source",
    "reads_files",
    "serial_map",
    "source_patterns",
    "source_state",
]


def open_source(
    source: SourceConfig,
    files: Sequence[str] | None = None,
    options: ReadOptions | None = None,
    splits: Sequence[str] = (),
) -> Source:
    """The data that a source names.

    Args:
        source: the settings.
        files: the files to read; None: find them now.
        options: how they are read.
        splits: the split of each file, if splits have their own.
    """
    if source.split_names:
        return _open_by_split(source, files, options or ReadOptions(), splits)
    reader = source.load_implementation()
    if not hasattr(reader, "open"):
        raise RunError(f"{source.implementation}, the reader of `kind: {source.kind}`, has no class method `open`")
    opened: Source = reader.open(source, files, options or ReadOptions())
    return opened


def _open_by_split(
    source: SourceConfig, files: Sequence[str] | None, options: ReadOptions, splits: Sequence[str]
) -> Source:
    own: dict[str, list[str] | None] = dict.fromkeys(source.split_names)
    if files is not None:
        found = {split: [file for file, its in zip(files, splits, strict=True) if its == split] for split in own}
        own = {split: paths for split, paths in found.items() if paths}
    opened, unselected = (
        {split: open_source(source.of_split(split), paths, reading) for split, paths in own.items()}
        for reading in (options, replace(options, columns=None))
    )
    names = {split: (paths or [split])[0] for split, paths in own.items()}
    kind = RowScannerBySplit if all(isinstance(each, RowScanner) for each in opened.values()) else SourceBySplit
    return kind(opened, unselected, names, options)


def source_state(source: SourceConfig) -> list[FileState] | None:
    """The present state of data that is not found by path; None for data that is."""
    state = getattr(source.load_implementation(), "state", None)
    return None if state is None else state(source)


def reads_files(source: SourceConfig) -> bool:
    """Whether the data is in files. Unlike `source_state`, this never runs a query or a function."""
    return not hasattr(source.load_implementation(), "state") or getattr(source, "path", None) is not None


def find_files(source: SourceConfig) -> list[str]:
    """The paths of the present files, regardless of spans. Raises DataError if there are none."""
    find = getattr(source.load_implementation(), "find", None)
    if find is not None:
        return list(find(source))
    return resolve(source_patterns(source))


def is_fork_safe(source: SourceConfig) -> bool:
    """Whether a process that has read local files of this kind can be forked."""
    return getattr(source.load_implementation(), "fork_safe", False)


def may_share_files(source: SourceConfig) -> bool:
    """Whether two splits may take their rows from the same files."""
    return hasattr(source.load_implementation(), "check_splits")


def source_patterns(source: SourceConfig) -> list[str]:
    """The paths of the config as glob patterns; empty for data that is not found by path."""
    patterns = getattr(source.load_implementation(), "patterns", None)
    if patterns is not None:
        return list(patterns(source))
    return list(source.patterns) if isinstance(source, FileSource) else []
