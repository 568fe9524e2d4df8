"""Files whose names have dates: the path that would read each day once.

dated_path({"kind": "csv", "path": "trips/*.csv"})      # "trips/{YYYY}-{MM}-{DD}.csv", if all names are so
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from headrace.common.storage.files import resolve
from headrace.configs.schema.data import placeholders

_DATE = re.compile(r"(?<!\d)(\d{4})([-_.]?)(\d{2})\2(\d{2})(?!\d)")


def dated_path(source: Mapping[str, Any]) -> str | None:
    """The path of the source with placeholders in place of the date that all of its files have in their names.

    None if a file has no date there or two, or if the names differ in more, or if there is only one file.
    """
    path = source.get("path")
    if not isinstance(path, str) or "*" not in path or placeholders(path):
        return None
    folder, slash, _ = path.rpartition("/")
    files = resolve(path)
    found = {_without_date(file.rpartition("/")[2]) for file in files}
    (name, *others) = found
    return None if name is None or others or len(files) < 2 or "*" in folder else f"{folder}{slash}{name}"


def _without_date(name: str) -> str | None:
    """The name with placeholders; None if it has no date, or more than one."""
    dates = [match for match in _DATE.finditer(name) if _exists(match)]
    if len(dates) != 1:
        return None
    (date,) = dates
    return f"{name[: date.start()]}{{YYYY}}{date[2]}{{MM}}{date[2]}{{DD}}{name[date.end() :]}"


def _exists(match: re.Match[str]) -> bool:
    try:
        return dt.date(int(match[1]), int(match[3]), int(match[4])).year >= 1900
    except ValueError:
        return False
