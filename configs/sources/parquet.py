"""Parquet."""

from __future__ import annotations

from typing import Literal

from configs.sources.base import FileSource


class ParquetSource(FileSource):
    """Parquet files; a folder stands for all the `*.parquet` files below it. Lists become multi-valued features."""

    kind: Literal["parquet"]
    """`parquet`."""
    partitions: Literal["hive", "none"] = "hive"
    """hive: `name=value` in the names of folders is a column `name`; none: the names of folders mean nothing."""
