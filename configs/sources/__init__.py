"""`data.source`: where the rows come from. One class, in a file of its own, for each kind; `kind:` chooses it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from configs.sources.arrays import ArraysSource
from configs.sources.base import FileSource, Paths
from configs.sources.bigquery import BigquerySource
from configs.sources.csv import CsvSource
from configs.sources.images import ImagesSource
from configs.sources.jsonl import JsonlSource
from configs.sources.parquet import ParquetSource
from configs.sources.sql import SqlSource
from configs.sources.text import TextSource
from configs.sources.tfds import TfdsSource
from configs.sources.tfrecord import TfrecordSource

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
