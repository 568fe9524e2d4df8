"""Objects by pattern, with the same meaning as patterns of local files have."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.components.example_gen.remote.errors import no_bucket, telling
from headrace.components.example_gen.remote.filesystems import filesystem
from headrace.components.example_gen.remote.place import Place, place_of
from headrace.configs.errors import DataError

if TYPE_CHECKING:
    from pyarrow import fs


def find(pattern: str) -> list[str]:
    """The objects behind a path or a pattern. Raises DataError if there are none, and for a folder."""
    place = place_of(pattern)
    with telling(str(place)):
        found = _listed(place) if glob.has_magic(place.key) else _single(place)
        if not found:
            raise DataError(
                f"no file matches {str(place)!r}", hint=f"The nearest folder that exists is {_nearest(place)}"
            )
    return [str(replace(place, key=key)) for key in found]


def is_folder(path: str) -> bool:
    """Whether the path names a folder."""
    place = place_of(path)
    with telling(str(place)):
        return _type(place) == "Directory" and _type(replace(place, key="")) == "Directory"


def fits(names: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether a path matches a pattern, both cut at the slashes, as glob.glob(recursive=True) has it."""
    if not patterns:
        return not names
    first, *rest = patterns
    if first == "**":
        here = fits(names, rest) if rest else len(names) == 1 and not _hidden(names[0])
        return here or (bool(names) and not _hidden(names[0]) and fits(names[1:], patterns))
    return bool(names) and _name_fits(names[0], first) and fits(names[1:], rest)


def _name_fits(name: str, pattern: str) -> bool:
    if not glob.has_magic(pattern):
        return name == pattern
    return fnmatch.fnmatchcase(name, pattern) and (_hidden(pattern) or not _hidden(name))


def _hidden(name: str) -> bool:
    return name.startswith(".")


def _single(place: Place) -> list[str]:
    kind = _type(place)
    if kind == "Directory":
        _check_bucket(place)
        folder = str(place).rstrip("/")
        raise DataError("is a folder, not an object", file=str(place), hint=f"For what lies in it, write {folder}/*")
    return [place.key] if kind == "File" else []


def _listed(place: Place) -> list[str]:
    parts = place.key.split("/")
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    base = replace(place, key="/".join(parts[:fixed]))
    below = parts[fixed:]
    keys = [
        info.path.removeprefix(f"{place.bucket}/")
        for info in _list(base, recursive=len(below) > 1 or "**" in below)
        if info.type.name == "File"
    ]
    if place.key in keys:
        return [place.key]
    return [key for key in keys if fits(key.split("/")[fixed:], below)]


def _list(folder: Place, *, recursive: bool) -> list[fs.FileInfo]:
    from pyarrow import fs

    selector = fs.FileSelector(folder.arrow, recursive=recursive, allow_not_found=bool(folder.key))
    try:
        found: list[fs.FileInfo] = filesystem(folder).get_file_info(selector)
    except FileNotFoundError:
        raise no_bucket(folder) from None
    return found


def _type(place: Place) -> str:
    """`File`, `Directory` or `NotFound`."""
    name: str = filesystem(place).get_file_info(place.arrow.rstrip("/")).type.name
    return name


def _check_bucket(place: Place) -> None:
    """Raise DataError if the bucket does not exist."""
    if _type(replace(place, key="")) != "Directory":
        raise no_bucket(place)


def _nearest(place: Place) -> Place:
    """The deepest folder above the place that exists. Raises DataError if not even the bucket does."""
    folder = replace(place, key="/".join(part for part in place.key.split("/")[:-1]))
    while folder.key and (glob.has_magic(folder.key) or _type(folder) != "Directory"):
        folder = folder.folder
    if not folder.key:
        _check_bucket(folder)
    return folder
