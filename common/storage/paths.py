"""The files that the paths of the config name: glob patterns, lists of them, and files inside installed packages."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from headrace.common.errors import DataError, NoDataError, RunError
from headrace.common.names import did_you_mean, join_names

PACKAGE = "pkg://"
AT_ONCE = 16
Result = TypeVar("Result")
REMOTE = ("s3://", "gs://", "minio://")


def is_remote(path: str) -> bool:
    """Whether the path names an object in an object store rather than a file."""
    return path.startswith(REMOTE)


def local_output(path: str | os.PathLike[str]) -> Path:
    """The path of a file or folder to write. Raises RunError for a URL, also for one that became a Path."""
    if re.match(r"[A-Za-z][A-Za-z0-9+]+:/", text := str(path)):
        url = re.sub(":/+", "://", text, count=1)
        raise RunError(f"{url} is a URL; name a path on this machine, and copy from there")
    return Path(path)


def at_once(function: Callable[[str], Result], paths: Sequence[str]) -> list[Result]:
    """Call a function on each path and return the results in order; on objects, which have latency, concurrently."""
    if len(paths) < 2 or not any(map(is_remote, paths)):
        return [function(path) for path in paths]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, paths))


def resolve(path: str | Iterable[str]) -> list[str]:
    """The files that paths or glob patterns match: absolute, sorted, without duplicates. `minio://` becomes `s3://`.

    Raises DataError for a pattern without files, and for a path that is a directory.
    """
    patterns = [path] if isinstance(path, str) else list(path)
    return sorted({file for found in at_once(_matches, patterns) for file in found})


def fixed_folder(patterns: Sequence[str]) -> str:
    """The deepest folder that contains whatever the patterns can match, in the form that `resolve` returns.

    It depends on the patterns alone, not on the existing files. Empty for patterns without a common folder.
    """
    folders = [
        list(takewhile(lambda name: not glob.has_magic(name), _normalized(pattern).split("/")[:-1]))
        for pattern in patterns
    ]
    return "/".join(names[0] for names in takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False)))


def _normalized(pattern: str) -> str:
    if is_remote(pattern):
        from headrace.common.storage.filesystems import parse_location

        return str(parse_location(pattern))
    return inside_package(pattern) if pattern.startswith(PACKAGE) else str(Path(pattern).expanduser().absolute())


def _matches(pattern: str) -> list[str]:
    if is_remote(pattern):
        from headrace.common.storage.find import find_objects

        return find_objects(pattern)
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", pattern)
    if scheme and scheme[0] != PACKAGE:
        known = ", ".join((PACKAGE, *REMOTE))
        raise DataError(f"{scheme[0]} is not supported", file=pattern, hint=f"A path is local or starts with {known}")
    local = _normalized(pattern)
    try:
        found = [local] if Path(local).exists() else list(_glob(local))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=pattern) from error
    dangling = [file for file in found or [local] if Path(file).is_symlink() and not Path(file).exists()]
    if dangling:
        # A match that cannot be read is an error: leaving it out would lose data silently.
        raise _dangling_link(dangling[0])
    files = [file for file in found if not file.endswith("/") and Path(file).is_file()]
    if files:
        return files
    if found and not any(map(os.path.isdir, found)):
        hint = "Write its content to a file"
        raise DataError("is a pipe or a device, not a regular file", file=pattern, hint=hint)
    if found:
        raise DataError("is a directory, not a file", file=pattern, hint=f"For the files in it, write {pattern}/*.csv")
    raise NoDataError(f"no file matches {pattern!r}", hint=_nearest_folder(local))


def _glob(pattern: str) -> Iterator[str]:
    """Like glob.glob(recursive=True), but a loop of links under `**` is followed only once.

    glob follows a loop until the system rejects the path as too long: with two loops in a folder, 2^40 times.
    """
    head, deep, rest = pattern.partition("/**/")
    if not deep:
        if not pattern.endswith("/**"):
            yield from glob.glob(pattern, recursive=True)
            return
        head, rest = pattern.removesuffix("/**"), "*"
    for base in glob.glob(head or "/"):
        for folder in _folders(base, ()):
            yield from _glob(f"{glob.escape(folder.rstrip('/'))}/{rest}")


def _folders(folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """The folder and the ones below it that `**` matches. above: device and inode of the folders above it."""
    try:
        found = Path(folder).stat()
    except OSError:
        return
    identity = found.st_dev, found.st_ino
    if above.count(identity) > 1:
        return
    yield folder
    try:
        inside = sorted(entry.path for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError:
        return
    for path in filter(os.path.isdir, inside):
        yield from _folders(path, (*above, identity))


def _dangling_link(link: str) -> DataError:
    what = f"is a link to {Path(link).readlink()}, which does not exist"
    return DataError(what, file=link, hint="Restore the file, or remove the link")


def inside_package(pattern: str) -> str:
    """The path of `pkg://package/inside/it/*.csv`. The package is found without importing it."""
    package, _, inside = pattern.removeprefix(PACKAGE).partition("/")
    top, *below = package.split(".")
    spec = importlib.util.find_spec(top) if top.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"{pattern!r} names the package {top!r}, which is not installed here")
    return str(Path(next(iter(spec.submodule_search_locations)), *below, inside))


def _nearest_folder(local: str) -> str:
    folder = Path(local).parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    wanted, there = (
        Path(local).relative_to(folder).parts[0],
        sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")),
    )
    near = did_you_mean(wanted, there) or (
        f"; it contains: {join_names(there, 8)}" if there else ", which has no visible files"
    )
    return f"The nearest folder that exists is {folder}{near}"
