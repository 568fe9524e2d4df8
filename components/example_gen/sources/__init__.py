"""Data sources, one file for each kind. Adding one means adding a file here and a line to the registry.

source = open_source(config.data.source)
source.columns()          # quick: reads a header
"""

from __future__ import annotations

from collections.abc import Sequence

from components.example_gen.sources.base import LIGHT, Source, Spread, Survey, in_place
from components.example_gen.sources.csv import CsvFiles
from configs.data import CsvSource

__all__ = ["LIGHT", "Source", "Spread", "Survey", "in_place", "open_source"]

_KINDS = {"csv": CsvFiles.open}


def open_source(source: CsvSource, files: Sequence[str] | None = None) -> Source:
    """The data behind `data.source`. `files`: the files to read, where they are known; None: look for them now."""
    return _KINDS[source.kind](source, files)
