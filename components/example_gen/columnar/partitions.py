"""Columns in the names of folders, as Hive, Spark and pyarrow partition data:

trips/year=2026/month=3/part-0.parquet      year is 2026, month is 3
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

from headrace.components.example_gen.types import Kind
from headrace.configs.errors import DataError

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What Hive writes where the value is missing."""

_FOLDER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")


def partition_values(path: str) -> dict[str, str | None]:
    """The columns in the names of the folders above a file; None where the value is missing."""
    found = (_FOLDER.fullmatch(folder) for folder in PurePosixPath(path).parent.parts)
    pairs = {unquote(match[1]): unquote(match[2]) for match in found if match}
    return {name: None if value == NO_VALUE else value for name, value in pairs.items()}


def same_partitions(path: str, own: Mapping[str, object], first_path: str, first: Mapping[str, object]) -> None:
    """Raise DataError if a file's folders do not name the columns that the first file's do."""
    for name in {**first, **own}:
        lacking, other = (path, first_path) if name not in own else (first_path, path)
        if name not in own or name not in first:
            raise DataError(
                f"no folder on the path gives the partition column {name!r}, as on that of {other}",
                file=lacking,
                hint='`partitions: "none"` under `data.source` reads no columns from the names of folders',
            )


def partition_kind(values: Sequence[str | None]) -> Kind:
    """The kind of a column: int if all values of a column are written as int64 are (`3`, not `03`), else string."""
    texts = [value for value in values if value is not None]
    if not texts:
        return "missing"
    return "int" if all(_INTEGER.fullmatch(text) for text in texts) else "string"
