"""What the kinds of sources that read files have in common: the files of one config, and how they are found.

@dataclass(frozen=True)
class CsvFiles(SourceFiles[CsvSource]):
    ...                                        # columns, parts, scan and batches

CsvFiles.open(source, files=None, options=ReadOptions()).files     # ("trips-1.csv", "trips-2.csv")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from headrace.common.names import join_names
from headrace.common.storage.files import resolve
from headrace.components.sources.base import ReadOptions
from headrace.configs.schema.sources import FileSource

Settings = TypeVar("Settings", bound=FileSource)

MOST_NAMED = 8
"""Folders that a message names."""


def note_of_empty(folders: Sequence[str], what: str) -> tuple[str, ...]:
    """A note about class folders without anything in them, if there are any. what: what they should have."""
    names = join_names(map(repr, folders), MOST_NAMED)
    return (f"there are no {what} in the class folder{'s'[: len(folders) != 1]} {names}",) if folders else ()


@dataclass(frozen=True)
class SourceFiles(Generic[Settings]):
    """The files of one config, in the order of their paths. source: its settings."""

    source: Settings
    files: tuple[str, ...]
    options: ReadOptions = field(default_factory=ReadOptions)

    @classmethod
    def open(cls, source: Settings, files: Sequence[str] | None, options: ReadOptions) -> Self:
        """Find the files, unless they are given."""
        return cls(source, tuple(cls.ordered(resolve(cls.patterns(source)) if files is None else files)), options)

    @classmethod
    def patterns(cls, source: Settings) -> list[str]:
        """The paths of the config as glob patterns."""
        return list(source.patterns)

    @classmethod
    def ordered(cls, files: Sequence[str]) -> Sequence[str]:
        return sorted(files)
