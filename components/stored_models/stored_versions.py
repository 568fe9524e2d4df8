"""Pushed models in an object store, of runs on this machine: `deploy.push: s3://bucket/models/taxi`.

folder = copy_of("s3://bucket/models/taxi", home)     # <home>/pushed/s3:/bucket/models/taxi
if (store := stored_versions(folder)) is not None:    # None of a folder that stands for no other
    with store.locked():
        store.refresh()                               # the folder has the versions of the store
        store.upload(model, 1795402861)

What is in service is what the store has. The folder has a copy of each version that this machine pushed, and of the
newest one, whoever pushed it; of others it has an empty folder. So whatever reads pushed models reads files here, and
neither knows nor waits for the store. Before a push, a rollback and a promotion, the folder follows the store.

A server takes a folder without its graph for no model. So `saved_model.pb` comes last and goes first: it is uploaded
under another name, the sizes of all objects are compared, and then the store itself copies it, in one step. What a push
that was killed has left is no version, and the next push removes it. Pushes of several machines wait for each other at
the store's lock (common/store_lock.py).
"""

from __future__ import annotations

import contextlib
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.common.checksums import file_sizes
from headrace.common.durable import sync_folder, sync_tree
from headrace.common.errors import DataError, RunError
from headrace.common.storage.paths import REMOTE
from headrace.common.store_lock import HeldLock, held

PUSHED = "pushed"
"""Folder of the pipeline's with the copies."""
GRAPH = "saved_model.pb"
LOCK, UPLOADING = ".headrace-push-lock", ".headrace-uploading-"
"""Names in the store: the start of the claims to the lock, and of a graph whose version is not complete yet."""
_FETCHING = ".fetching-"
_MARKS = {scheme.replace("://", ":"): scheme for scheme in REMOTE}
_CHUNK = 1 << 22

Files = dict[str, int]
"""The sizes of a version's files in bytes, by their paths in it."""


def copy_of(uri: str, home: Path) -> Path:
    """The folder that stands for one in an object store. home: the pipeline's folder."""
    return home / PUSHED / uri.rstrip("/").replace("://", ":/", 1)


def uri_of(path: Path | str) -> str | None:
    """The URI that a folder, or a version in it, stands for; None if it stands for none."""
    parts = Path(path).parts
    for before, mark, *rest in (parts[at:] for at in range(len(parts) - 2)):
        if before == PUSHED and mark in _MARKS:
            return _MARKS[mark] + "/".join(rest)
    return None


def shown(path: Path | str) -> str:
    """What users call a folder of pushed models, or a version in it: its URI if it stands for one, else its path."""
    return uri_of(path) or str(path)


def stored_versions(folder: Path) -> StoredVersions | None:
    """The object store that a folder stands for; None if it is just a folder.

    Raises DataError if its URI names no bucket or no server.
    """
    uri = uri_of(folder)
    return None if uri is None else StoredVersions(folder, uri)


class StoredVersions:
    """The versions in a folder of an object store, and their copies here. All of it may raise OSError."""

    def __init__(self, folder: Path, uri: str) -> None:
        from headrace.common.storage.filesystems import filesystem, parse_location, promptly

        location = parse_location(uri)
        self.folder, self.uri = folder, uri
        self._path, self._bucket = location.arrow, f"{location.scheme}://{location.bucket}"
        self._system, self._prompt = filesystem(location), promptly(location)
        self._claim: HeldLock | None = None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other machine changes the versions. Raises RunError if that takes an hour."""
        waiting = f"deploy.push: another machine pushes to {self.uri}; waiting until it is done"
        with held(self._prompt, f"{self._path}/{LOCK}", waiting) as claim:
            self._claim = claim
            try:
                yield
            finally:
                self._claim = None

    def refresh(self) -> set[int]:
        """Let the copy follow the store.

        Returns the numbers of versions that are incomplete there. Raises RunError if there is no such bucket.
        """
        there = self._versions()
        complete = {number: files for number, files in there.items() if GRAPH in files}
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            left = path.name.startswith(_FETCHING)
            if left or (path.name.isdecimal() and int(path.name) not in complete):
                shutil.rmtree(path)
        for number in complete:
            (self.folder / str(number)).mkdir(exist_ok=True)
        if complete:
            self._follow(max(complete), complete[max(complete)])
        return there.keys() - complete.keys()

    def fetch(self, number: int) -> None:
        """Replace the copy of a version by what the store has; an empty folder if it has none."""
        files = self._versions().get(number, {})
        partial, version = self.folder / f"{_FETCHING}{number}", self.folder / str(number)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name in files:
            self._download(f"{number}/{name}", partial / name)
        if file_sizes(partial) != files:
            raise DataError("was changed while it was read; run again", file=f"{self.uri}/{number}")
        sync_tree(partial)
        shutil.rmtree(version, ignore_errors=True)
        partial.rename(version)
        sync_folder(self.folder)

    def upload(self, model: Path, number: int) -> None:
        """Make a model a version, under the lock. If that fails, it is none; what is left, `clear` removes."""
        names = file_sizes(model)
        for name in sorted(names.keys() - {GRAPH}):
            self._put(model / name, f"{number}/{name}")
        uploading = f"{UPLOADING}{number}"
        self._put(model / GRAPH, uploading)
        found = self._listing()
        there = {name.partition("/")[2]: size for name, size in found.items() if name.startswith(f"{number}/")}
        if {**there, GRAPH: found.get(uploading)} != names:
            raise DataError("does not have the files that were uploaded", file=f"{self.uri}/{number}")
        self._check()
        self._prompt.copy_file(f"{self._path}/{uploading}", f"{self._path}/{number}/{GRAPH}")
        self._prompt.delete_file(f"{self._path}/{uploading}")

    def clear(self) -> None:
        """Under the lock, remove what uploads and removals that ended have left."""
        self._check()
        for number, files in self._versions().items():
            if GRAPH not in files:
                self.remove(number)
        for name in self._listing():
            if name.startswith(UPLOADING):
                self._delete(name)

    def remove(self, number: int) -> None:
        """Remove a version under the lock, its graph first."""
        self._check()
        self._delete(f"{number}/{GRAPH}")
        with contextlib.suppress(FileNotFoundError):
            self._prompt.delete_dir(f"{self._path}/{number}")

    def has_beside(self, folder: str, files: Files) -> bool:
        """Whether a folder beside the versions has exactly these files. folder: its path, such as `lite/17`."""
        start = f"{folder}/"
        found = {name: size for name, size in self._listing().items() if name.startswith(start)}
        return {name.removeprefix(start): size for name, size in found.items()} == files

    def put_beside(self, folder: str, files: Sequence[Path]) -> None:
        """Put files into a folder beside the versions, one after the other, under the lock."""
        for file in files:
            self._put(file, f"{folder}/{file.name}")

    def remove_orphans(self, beside: str) -> None:
        """Remove the folders of versions that are gone, under the lock and after `refresh`. beside: where they are."""
        numbers = {name.split("/")[1] for name in self._listing() if name.startswith(f"{beside}/")}
        for name in filter(str.isdecimal, numbers):
            if not (self.folder / name).is_dir():
                self._check()
                self._prompt.delete_dir(f"{self._path}/{beside}/{name}")

    def _follow(self, number: int, files: Files) -> None:
        if file_sizes(self.folder / str(number)) != files:
            self.fetch(number)

    def _versions(self) -> dict[int, Files]:
        found: dict[int, Files] = defaultdict(dict)
        for name, size in self._listing().items():
            version, _, inside = name.partition("/")
            if version.isdecimal() and inside:
                found[int(version)][inside] = size
        return found

    def _listing(self) -> Files:
        """The sizes of all objects. One whose name leads out of a folder as a path is none of ours."""
        from pyarrow import fs

        from headrace.common.storage.files import is_folder

        found = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True, recursive=True))
        if not found and not is_folder(self._bucket):
            raise RunError(f"deploy.push: the bucket of {self.uri} does not exist; create it, or correct its name")
        start = len(self._path) + 1
        files = {info.path[start:]: int(info.size) for info in found if info.type == fs.FileType.File}
        return {name: size for name, size in files.items() if not {"", ".", ".."} & {*name.split("/")}}

    def _check(self) -> None:
        """Raise RunError if the lock was lost, so that another machine may change the versions."""
        if self._claim is None:
            raise RuntimeError("the versions of an object store are changed under its lock alone")
        self._claim.check()

    def _put(self, file: Path, name: str) -> None:
        from headrace.common.storage.writer import put_file

        put_file(self._prompt, file, f"{self._path}/{name}", self._check)

    def _download(self, name: str, path: Path) -> None:
        from headrace.common.storage.reader import read_whole

        path.parent.mkdir(parents=True, exist_ok=True)

        def copy(stream: Any) -> None:
            with path.open("wb") as file:
                shutil.copyfileobj(stream, file, _CHUNK)

        read_whole(self._system, f"{self._path}/{name}", copy)

    def _delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._prompt.delete_file(f"{self._path}/{name}")


def explained(error: OSError | DataError, folder: Path) -> RunError:
    """The failure of a push, a refresh or a look at a folder, in an object store or on this machine, for users."""
    uri = uri_of(folder)
    if uri is None or isinstance(error, shutil.Error) or (isinstance(error, OSError) and error.filename is not None):
        return RunError(
            f"deploy.push: cannot push to {folder}: {error}\n"
            "  Make the folder writable and free some space, or set `deploy.push` to another folder or to null."
        )
    if isinstance(error, OSError):
        from headrace.common.storage.errors import object_error

        error = object_error(error, uri)
    return RunError(
        f"deploy.push: cannot push to {uri}: {error}\n"
        "  The version in service is the one before. The bucket must exist, and the credentials must allow to list,"
        " read, write and delete objects there."
    )
