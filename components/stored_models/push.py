"""Copy a model into the folder that a model server watches, as a new version, in one step.

version = push(Path(model, "Format-Serving"), Path("serving/taxi"), keep=3)

A folder that stands for one in an object store (stored_versions.py) gets its versions after the store has them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.common.checksums import checksum, file_sizes
from headrace.common.durable import sync_folder, sync_tree
from headrace.common.errors import DataError, RunError
from headrace.components.stored_models.blessed_record import PUSHING
from headrace.components.stored_models.stored_versions import StoredVersions, explained, stored_versions, uri_of

KEEP_ALL = 0
_REMOVING = ".removing-"
"""Prefix of folders that are no longer versions."""


def push(model: Path, destination: Path, clock: Callable[[], float] = time.time, keep: int = KEEP_ALL) -> Path:
    """Make `destination/<version>` a copy of `model` in one step: a server sees the whole version or none of it.

    The version is the Unix time in seconds, or one more than the greatest version there, finished or not. If the
    greatest finished one is this very model, it is returned as it is, so that a run that was killed before it noted its
    push does not push twice. Leftovers of a killed push do not have numbers for names, and are removed. Pushes to one
    destination wait for each other. The newest `keep` versions stay. Raises RunError if the destination cannot be
    written to.
    """
    with _writing(destination) as store, store.locked() if store else contextlib.nullcontext():
        incomplete = store.refresh() if store else set()
        if store:
            store.clear()
        unfinished = [path.name.split("-")[1] for path in destination.glob(f"{PUSHING}*")]
        for prefix in (PUSHING, _REMOVING):
            for leftover in destination.glob(f"{prefix}*"):
                shutil.rmtree(leftover)
        there = versions(destination)
        if there and _same(model, there[max(there)]):
            version = there[max(there)]
        else:
            taken = [*there, *incomplete, *(int(name) for name in unfinished if name.isdecimal())]
            number = max([int(clock()), *(number + 1 for number in taken)])
            version = _copy(model, destination / str(number), store)
        remove_old(destination, keep, store)
        return version


def fetch(version: Path) -> None:
    """Bring the files of a version here, if it stands for one in an object store. Raises RunError as `refresh` does."""
    if uri_of(version) is not None:
        with _writing(version.parent) as store:
            if store:
                store.fetch(int(version.name))


def refresh(destination: Path) -> None:
    """Let a folder that stands for one in an object store have the versions that are there by now.

    No effect on other folders. Raises RunError if the store cannot be read.
    """
    if uri_of(destination) is not None:
        with _writing(destination) as store:
            if store:
                store.refresh()


@contextlib.contextmanager
def _writing(destination: Path) -> Iterator[StoredVersions | None]:
    """Lock a destination; yields its object store, if it stands for one. Errors become RunErrors."""
    try:
        destination.mkdir(parents=True, exist_ok=True)
        with locked(destination):
            yield stored_versions(destination)
    except (OSError, DataError) as error:
        if isinstance(error, RunError):
            raise
        raise explained(error, destination) from error


def versions(destination: Path) -> dict[int, Path]:
    """The versions in a folder, by number."""
    return {int(path.name): path for path in destination.iterdir() if path.name.isdecimal()}


def remove_old(destination: Path, keep: int, store: StoredVersions | None = None) -> None:
    """Remove all versions but the newest `keep`, each in one step. store: which the destination stands for."""
    there = versions(destination)
    for number in sorted(there)[:-keep] if keep else ():
        if store:
            store.remove(number)
        removing = there[number].rename(destination / f"{_REMOVING}{number}")
        shutil.rmtree(removing)


def _copy(model: Path, version: Path, store: StoredVersions | None = None) -> Path:
    """Copy a model, and give the copy its final name once all of it is on the disk, byte for byte, and in the store."""
    partial = version.with_name(f"{PUSHING}{version.name}-{os.getpid()}")
    try:
        shutil.copytree(model, partial)
        sync_tree(partial)
        if checksum(partial) != checksum(model):
            raise OSError(errno.EIO, f"the copy is not what {model} holds", str(partial))
        if store:
            store.upload(partial, int(version.name))
    except (OSError, DataError):
        shutil.rmtree(partial, ignore_errors=True)  # a full disk should not stay full
        raise
    partial.rename(version)
    sync_folder(version.parent)
    return version


def _same(model: Path, version: Path) -> bool:
    """Whether two folders hold the same files. Sizes are compared before any file is read."""
    return file_sizes(model) == file_sizes(version) and checksum(model) == checksum(version)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a destination against other pushes. Has no effect if the file system has no locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # releases the lock


def archive(model: Path, directory: Path) -> None:
    """Store the pushed model in the artifact too, as TFX does: by hard links where the file system has them."""
    shutil.copytree(model, directory, copy_function=_link, dirs_exist_ok=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
