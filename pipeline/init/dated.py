"""Files in whose paths are dates: the path that would read each day once.

dated_path({"kind": "csv", "path": "trips/*.csv"})      # "trips/{YYYY}-{MM}-{DD}.csv", if all names are so
dated_path({"kind": "parquet", "path": "trips"})        # "trips/{YYYY}/{MM}/{DD}/*.parquet", if the folders are so
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.common.storage.files import resolve
from headrace.configs.schema.data import placeholders

_DATE = re.compile(r"(?<!\d)(\d{4})([-_./]?)(\d{2})\2(\d{2})(?!\d)")


def dated_path(source: Mapping[str, Any]) -> str | None:
    """The path of the source with placeholders in place of the date that all of its files have in their names, or in
    those of their folders.

    None if a file has no date there or two, or if the names differ in more, or if there is only one day.
    """
    path = source.get("path")
    if not isinstance(path, str) or placeholders(path):
        return None
    if source["kind"] == "parquet" and "*" not in path and Path(path).is_dir():
        path = f"{path.rstrip('/')}/**/*.parquet"
    if "*" not in path:
        return None
    folder, slash, _ = path[: path.index("*")].rpartition("/")
    above = f"{folder}/" if "://" in folder else f"{Path(folder).absolute()}/"
    below = [file.removeprefix(above) for file in resolve(path)]
    found = [_without_date(name) for name in below]
    days = {date[0] for name in below for date in _DATE.finditer(name)}
    named = [name.split("/") for name in found if name is not None]
    if len(named) < len(found) or len(days) < 2 or len({*map(len, named)}) > 1:
        return None
    patterns = [*["*"] * (len(named[0]) - 1), path.rpartition("/")[2]]
    parts = [_common(names, pattern) for names, pattern in zip(zip(*named, strict=True), patterns, strict=True)]
    return None if None in parts else folder + slash + "/".join(map(str, parts))


def _common(names: Sequence[str], pattern: str) -> str | None:
    """What names these files or folders of all days: the pattern, if they have no dates; None if they differ beside
    the date.
    """
    if "*" in pattern and not any(placeholders(name) for name in names):
        return pattern
    return names[0] if len({*names}) == 1 else None


def _without_date(name: str) -> str | None:
    """The name with placeholders; None if it has no date, or different ones."""
    dates = [match for match in _DATE.finditer(name) if _exists(match)]
    if len({match.group(1, 3, 4) for match in dates}) != 1:
        return None
    return _DATE.sub(lambda date: date[2].join(("{YYYY}", "{MM}", "{DD}")) if _exists(date) else date[0], name)


def _exists(match: re.Match[str]) -> bool:
    try:
        return dt.date(int(match[1]), int(match[3]), int(match[4])).year >= 1900
    except ValueError:
        return False
