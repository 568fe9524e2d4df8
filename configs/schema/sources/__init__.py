"""`data.source`: where the rows come from. One class per kind; `kind:` selects it.

To add a kind, write its class and its reader, which the class names, and add a line to the registry.
"""

from __future__ import annotations

from typing import Annotated

from headrace.common import entry_points
from headrace.configs.schema.kinds import OpenUnion
from headrace.configs.schema.sources.base import SourceBase
from headrace.configs.schema.sources.csv import CsvSource
from headrace.configs.schema.sources.files import (
    AvroSource,
    DatasetsSource,
    ExcelSource,
    FileSource,
    JsonlSource,
    JsonSource,
    ParquetSource,
    Paths,
    TfrecordSource,
)
from headrace.configs.schema.sources.folders import ImagesSource, TextSource
from headrace.configs.schema.sources.stores import ArraysSource, BigquerySource, PythonSource, SqlSource, TfdsSource

__all__ = [
    "SOURCES",
    "ArraysSource",
    "AvroSource",
    "BigquerySource",
    "CsvSource",
    "DatasetsSource",
    "ExcelSource",
    "FileSource",
    "ImagesSource",
    "JsonSource",
    "JsonlSource",
    "ParquetSource",
    "Paths",
    "PythonSource",
    "SourceBase",
    "SourceConfig",
    "SqlSource",
    "TextSource",
    "TfdsSource",
    "TfrecordSource",
]

SOURCES = OpenUnion(
    entry_points.SOURCES,
    base=SourceBase,
    tag="kind",
    built_in=(
        "headrace.configs.schema.sources.csv.CsvSource",
        "headrace.configs.schema.sources.files.ParquetSource",
        "headrace.configs.schema.sources.files.JsonlSource",
        "headrace.configs.schema.sources.files.JsonSource",
        "headrace.configs.schema.sources.files.DatasetsSource",
        "headrace.configs.schema.sources.files.AvroSource",
        "headrace.configs.schema.sources.files.ExcelSource",
        "headrace.configs.schema.sources.files.TfrecordSource",
        "headrace.configs.schema.sources.folders.ImagesSource",
        "headrace.configs.schema.sources.folders.TextSource",
        "headrace.configs.schema.sources.stores.SqlSource",
        "headrace.configs.schema.sources.stores.BigquerySource",
        "headrace.configs.schema.sources.stores.TfdsSource",
        "headrace.configs.schema.sources.stores.ArraysSource",
        "headrace.configs.schema.sources.stores.PythonSource",
    ),
)
"""The registry of kinds, in the order of docs/config.md."""
SourceConfig = Annotated[SourceBase, SOURCES]
