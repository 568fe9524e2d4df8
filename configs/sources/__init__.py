"""`data.source`: where the rows come from. One class, in a file of its own, for each kind; `kind:` chooses it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from headrace.configs.sources.arrays import ArraysSource
from headrace.configs.sources.base import FileSource, Paths
from headrace.configs.sources.bigquery import BigquerySource
from headrace.configs.sources.csv import CsvSource
from headrace.configs.sources.images import ImagesSource
from headrace.configs.sources.jsonl import JsonlSource
from headrace.configs.sources.parquet import ParquetSource
from headrace.configs.sources.sql import SqlSource
from headrace.configs.sources.text import TextSource
from headrace.configs.sources.tfds import TfdsSource
from headrace.configs.sources.tfrecord import TfrecordSource

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
