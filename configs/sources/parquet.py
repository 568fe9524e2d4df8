"""Parquet."""

from __future__ import annotations

from typing import Literal

from headrace.configs.sources.base import FileSource


class ParquetSource(FileSource):
    """Parquet files; a folder stands for all the `*.parquet` files below it. Columns become features by the types they
    are stored in: integers and booleans (0 and 1) are ints; floats and durations (in seconds) are floats; decimals as
    in all sources (see `data.types`); texts, dates (`2026-11-21`), times and timestamps (`2026-11-21 12:30:00.000`;
    with a time zone in UTC, with a `Z` behind) are strings; binary is bytes; lists of these are multi-valued features.
    `data.types` may say otherwise: a date as `int` is days, a timestamp whole seconds, since 1970-01-01 UTC. Structs,
    maps and lists of lists are not read: leave their columns out with `data.columns`. All files need the same columns.
    """

    kind: Literal["parquet"]
    """`parquet`."""
    partitions: Literal["hive", "none"] = "hive"
    """hive: `name=value` in the name of a folder on a file's path is a column `name`, an int where all its values are,
    else a string, unless the files hold such a column themselves; none: the names of folders mean nothing."""
