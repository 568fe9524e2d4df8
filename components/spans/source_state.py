"""Where the data of a source is now: its files, or the state of data that is in none.

The reader of a source is imported only if it may have a say in that (components/sources): an unchanged run
then needs no Arrow.
"""

from __future__ import annotations

from headrace.common.storage.files import FileState, resolve
from headrace.configs.schema.sources import FileSource, SourceConfig


def source_state(source: SourceConfig) -> list[FileState] | None:
    """The present state of data that is not found by path; None for data that is."""
    if source.found_by_paths:
        return None
    state = getattr(source.load_implementation(), "state", None)
    return None if state is None else state(source)


def reads_files(source: SourceConfig) -> bool:
    """Whether the data is in files. Unlike `source_state`, this never runs a query or a function."""
    if source.found_by_paths:
        return True
    return not hasattr(source.load_implementation(), "state") or getattr(source, "path", None) is not None


def find_files(source: SourceConfig) -> list[str]:
    """The paths of the present files, regardless of spans. Raises DataError if there are none."""
    find = None if source.found_by_paths else getattr(source.load_implementation(), "find", None)
    if find is not None:
        return list(find(source))
    return resolve(source_patterns(source))


def may_share_files(source: SourceConfig) -> bool:
    """Whether two splits may take their rows from the same files."""
    return not source.found_by_paths and hasattr(source.load_implementation(), "check_splits")


def source_patterns(source: SourceConfig) -> list[str]:
    """The paths of the config as glob patterns; empty for data that is not found by path."""
    patterns = None if source.found_by_paths else getattr(source.load_implementation(), "patterns", None)
    if patterns is not None:
        return list(patterns(source))
    return list(source.patterns) if isinstance(source, FileSource) else []
