"""Objects found by glob patterns, which mean the same as for local files."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.common.errors import DataError, NoDataError
from headrace.common.storage.errors import no_bucket, object_errors
from headrace.common.storage.filesystems import ObjectLocation, filesystem, parse_location

if TYPE_CHECKING:
    from pyarrow import fs


def find_objects(pattern: str) -> list[str]:
    """The objects that a path or a pattern matches. Raises DataError if there are none, and for a folder."""
    location = parse_location(pattern)
    with object_errors(str(location)):
        found = _list_matching(location) if glob.has_magic(location.key) else _single(location)
        if not found:
            raise NoDataError(
                f"no file matches {str(location)!r}", hint=f"The nearest folder that exists is {_nearest(location)}"
            )
    return [str(replace(location, key=key)) for key in found]


def is_folder(path: str) -> bool:
    """Whether the path names a folder."""
    location = parse_location(path)
    with object_errors(str(location)):
        return _type(location) == "Directory" and _type(replace(location, key="")) == "Directory"


def matches_glob(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether a path matches a pattern, both split at the slashes, as in glob.glob(recursive=True)."""
    if not patterns:
        return not names
    first, *rest = patterns
    if first == "**":
        here = matches_glob(names, rest) if rest else len(names) == 1 and not _hidden(names[0])
        return here or (bool(names) and not _hidden(names[0]) and matches_glob(names[1:], patterns))
    return bool(names) and _name_matches(names[0], first) and matches_glob(names[1:], rest)


def _name_matches(name: str, pattern: str) -> bool:
    if not glob.has_magic(pattern):
        return name == pattern
    return fnmatch.fnmatchcase(name, pattern) and (_hidden(pattern) or not _hidden(name))


def _hidden(name: str) -> bool:
    return name.startswith(".")


def _single(location: ObjectLocation) -> list[str]:
    kind = _type(location)
    if kind == "Directory":
        _check_bucket(location)
        folder = str(location).rstrip("/")
        raise DataError("is a folder, not an object", file=str(location), hint=f"For its objects, write {folder}/*")
    return [location.key] if kind == "File" else []


def _list_matching(location: ObjectLocation) -> list[str]:
    parts = location.key.split("/")
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    base = replace(location, key="/".join(parts[:fixed]))
    below = parts[fixed:]
    keys = [
        info.path.removeprefix(f"{location.bucket}/")
        for info in _list(base, recursive=len(below) > 1 or "**" in below)
        if info.type.name == "File"
    ]
    if location.key in keys:
        return [location.key]
    return [key for key in keys if matches_glob(key.split("/")[fixed:], below)]


def _list(folder: ObjectLocation, *, recursive: bool) -> list[fs.FileInfo]:
    from pyarrow import fs

    selector = fs.FileSelector(folder.arrow, recursive=recursive, allow_not_found=bool(folder.key))
    try:
        found: list[fs.FileInfo] = filesystem(folder).get_file_info(selector)
    except FileNotFoundError:
        raise no_bucket(folder) from None
    return found


def _type(location: ObjectLocation) -> str:
    """`File`, `Directory` or `NotFound`."""
    name: str = filesystem(location).get_file_info(location.arrow.rstrip("/")).type.name
    return name


def _check_bucket(location: ObjectLocation) -> None:
    """Raise DataError if the bucket does not exist."""
    if _type(replace(location, key="")) != "Directory":
        raise no_bucket(location)


def _nearest(location: ObjectLocation) -> ObjectLocation:
    """The deepest existing folder above a location. Raises DataError if not even the bucket exists."""
    folder = replace(location, key="/".join(part for part in location.key.split("/")[:-1]))
    while folder.key and (glob.has_magic(folder.key) or _type(folder) != "Directory"):
        folder = folder.folder
    if not folder.key:
        _check_bucket(folder)
    return folder
