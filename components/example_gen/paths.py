"""From the paths of the config to files: patterns, lists of them, and files that an installed package carries."""

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

from headrace.configs.errors import DataError
from headrace.configs.suggest import did_you_mean, listed

PACKAGE = "pkg://"
AT_ONCE = 16
Result = TypeVar("Result")
REMOTE = ("s3://", "gs://", "minio://")


def is_remote(path: str) -> bool:
    """Whether the path names an object in a store, not a file."""
    return path.startswith(REMOTE)


def at_once(function: Callable[[str], Result], paths: Sequence[str]) -> list[Result]:
    """The function of each path, in their order; for objects in a store, which answer late, of several at a time."""
    if len(paths) < 2 or not any(map(is_remote, paths)):
        return [function(path) for path in paths]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, paths))


def resolve(path: str | Iterable[str]) -> list[str]:
    """The files behind a path, a glob pattern, or several: absolute, sorted, each once. `minio://` becomes `s3://`.

    Raises DataError for a pattern without files, and for a path that is a directory.
    """
    patterns = [path] if isinstance(path, str) else list(path)
    return sorted({file for found in at_once(_matches, patterns) for file in found})


def fixed_folder(patterns: Sequence[str]) -> str:
    """The deepest folder that holds all that the patterns can ever match, as `resolve` spells it; it depends on them
    alone, not on the files that there are. Empty for patterns that have nothing in common.
    """
    folders = [
        list(takewhile(lambda name: not glob.has_magic(name), _spelled(one).split("/")[:-1])) for one in patterns
    ]
    return "/".join(names[0] for names in takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False)))


def _spelled(pattern: str) -> str:
    if is_remote(pattern):
        from headrace.components.example_gen.remote.place import place_of

        return str(place_of(pattern))
    return inside_package(pattern) if pattern.startswith(PACKAGE) else str(Path(pattern).expanduser().absolute())


def _matches(pattern: str) -> list[str]:
    if is_remote(pattern):
        from headrace.components.example_gen.remote.find import find

        return find(pattern)
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", pattern)
    if scheme and scheme[0] != PACKAGE:
        known = ", ".join((PACKAGE, *REMOTE))
        raise DataError(f"nothing here reads {scheme[0]}", file=pattern, hint=f"Paths are local, or start with {known}")
    local = _spelled(pattern)
    try:
        found = [local] if Path(local).exists() else list(_globbed(local))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=pattern) from error
    dangling = [file for file in found or [local] if Path(file).is_symlink() and not Path(file).exists()]
    if dangling:
        raise _dangling(dangling[0])
    files = [file for file in found if not file.endswith("/") and Path(file).is_file()]
    if files:
        return files
    if found and not any(map(os.path.isdir, found)):
        hint = "Write what it gives to a file"
        raise DataError("is no regular file, but a pipe or a device", file=pattern, hint=hint)
    if found:
        raise DataError("is a directory, not a file", file=pattern, hint=f"For the files in it, write {pattern}/*.csv")
    raise DataError(f"no file matches {pattern!r}", hint=_nearest_folder(local))


def _globbed(pattern: str) -> Iterator[str]:
    """As glob.glob(recursive=True), but a loop of links under `**` is gone through once, where glob would do so until
    the system calls the path too long: with two loops in a folder 2^40 times.
    """
    head, deep, rest = pattern.partition("/**/")
    if not deep:
        if not pattern.endswith("/**"):
            yield from glob.glob(pattern, recursive=True)
            return
        head, rest = pattern.removesuffix("/**"), "*"
    for base in glob.glob(head or "/"):
        for folder in _folders(base, ()):
            yield from _globbed(f"{glob.escape(folder.rstrip('/'))}/{rest}")


def _folders(folder: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """The folder and those below it that `**` means. above: device and inode of those above it."""
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


def _dangling(link: str) -> DataError:
    """A file among those that a pattern matches is never left out in silence."""
    return DataError(
        f"is a link to {Path(link).readlink()}, where there is nothing",
        file=link,
        hint="Put the file there, or remove the link",
    )


def inside_package(pattern: str) -> str:
    """`pkg://package/inside/it/*.csv`, with the package found but not imported."""
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
    wanted, there = Path(local).relative_to(folder).parts[0], sorted(path.name for path in folder.iterdir())
    near = did_you_mean(wanted, there) or (f"; it holds: {listed(there, 8)}" if there else ", which is empty")
    return f"The nearest folder that exists is {folder}{near}"
