"""`data.source`: where the rows come from. One class per kind; `kind:` selects it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.schema.sources.files import (
    CsvSource,
    FileSource,
    ImagesSource,
    JsonlSource,
    ParquetSource,
    Paths,
    TextSource,
    TfrecordSource,
)
from headrace.configs.schema.sources.stores import ArraysSource, BigquerySource, SqlSource, TfdsSource

__all__ = [
    "ArraysSource",
    "BigquerySource",
    "CsvSource",
    "FileSource",
    "ImagesSource",
    "JsonlSource",
    "ParquetSource",
    "Paths",
    "SourceConfig",
    "SqlSource",
    "TextSource",
    "TfdsSource",
    "TfrecordSource",
]

SourceConfig = Annotated[
    CsvSource
    | ParquetSource
    | JsonlSource
    | TfrecordSource
    | ImagesSource
    | TextSource
    | SqlSource
    | BigquerySource
    | TfdsSource
    | ArraysSource,
    Field(discriminator="kind"),
]
