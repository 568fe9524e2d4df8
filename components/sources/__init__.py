"""The readers of the kinds of data sources, one module or folder each. The class of a kind's settings names its reader.

source = open_source(config.data.source)
source.columns()          # quick: reads a header

A reader is a class with a class method `open(source, files, options)`, which returns a `base.Source`. It may have:

- `state(source)`, if the data is not in files: the FileStates that make up its fingerprint;
- `find(source)`, if `path` alone does not name the files: the paths of the files;
- `patterns(source)`, if its paths have a meaning of their own: the paths as glob patterns;
- `open_ended = True`, if a record may lack columns that others have, so that only the first ones are searched for
  names, and the columns of two splits may differ;
- `check_splits(parts)`, if the data of two splits can overlap although their paths differ: raises DataError, given the
  parts of each split;
- `fork_safe = True`, if reading local files starts no threads and opens no connections that a forked child would
  inherit.

The first four are called by `components/spans/source_state.py`, except for a source whose settings say that it is
`found_by_paths`. Slow imports happen when it reads, not when its module is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.common.errors import RunError
from headrace.components.examples.skips import Skipped
from headrace.components.sources.base import (
    ParallelMap,
    ReadOptions,
    RowScanner,
    ScanResult,
    Source,
    serial_map,
)
from headrace.components.sources.by_split import RowScannerBySplit, SourceBySplit
from headrace.configs.schema.sources import SourceConfig

__all__ = [
    "ParallelMap",
    "ReadOptions",
    "ScanResult",
    "Skipped",
    "Source",
    "is_fork_safe",
    "is_open_ended",
    "open_source",
    "serial_map",
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


def is_fork_safe(source: SourceConfig) -> bool:
    """Whether a process that has read local files of this kind can be forked."""
    return getattr(source.load_implementation(), "fork_safe", False)


def is_open_ended(source: SourceConfig) -> bool:
    """Whether a record of this kind may lack columns that others have, so that `columns` need not name all of them."""
    return getattr(source.load_implementation(), "open_ended", False)
