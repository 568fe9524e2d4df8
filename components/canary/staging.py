"""A candidate as a version in the folder that a staging server watches, for as long as the Canary asks it.

with staged(model, "s3://bucket/staging") as version:
    ...

The Canaries of several runs wait for each other, because a server drops a version as soon as it sees a higher one: in
a folder of this machine at its lock, in an object store at ours (common/store_lock.py). `.headrace-staged-<version>` is
written before the version and removed after it, so whatever has this mark and is found by the next Canary was left by a
run that was killed.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headrace.common.durable import sync_folder, sync_tree, write_text
from headrace.common.errors import RunError
from headrace.common.storage.paths import is_remote
from headrace.common.store_lock import HeldLock, held
from headrace.components.stored_models.push import locked, versions

logger = logging.getLogger(__name__)

MARK, COPYING, LOCK = ".headrace-staged-", ".headrace-copying-", ".headrace-staging-lock"
GRAPH = "saved_model.pb"
"""Without this file a folder is not a model, so in an object store it comes last and goes first."""


class StagingFolder(Protocol):
    """A folder with versions. All of it may raise OSError."""

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Wait until no other run stages a version; keep others out. No effect on file systems without locks."""

    def check(self) -> None:
        """Raise RunError if the lock was lost, so that another run may stage a version by now."""

    def names(self) -> list[str]:
        """What is directly in it."""

    def add(self, model: Path, version: int) -> None:
        """Mark a version, and copy the model there. Raises RunError as `check` does."""

    def remove(self, version: int) -> None:
        """Remove a version, however much of it there is, and then its mark."""


@dataclass(frozen=True)
class Stage:
    version: int
    folder: StagingFolder

    def is_there(self) -> bool:
        """Whether nobody has removed it. Raises OSError."""
        return f"{MARK}{self.version}" in self.folder.names()


@contextlib.contextmanager
def staged(model: Path, folder: str, clock: Callable[[], float] = time.time) -> Iterator[Stage]:
    """Copy a model into the folder under a number higher than all others; remove it when the block ends.

    Removes what killed runs left there. Raises RunError if the folder cannot be read or written.
    """
    where: StagingFolder = _ObjectStore(folder) if is_remote(folder) else _LocalFolder(Path(folder).absolute())
    with _explained(folder), where.lock():
        names = where.names()
        for left in sorted(int(name.removeprefix(MARK)) for name in names if name.startswith(MARK)):
            logger.warning(f"deploy.canary.server.folder: removing version {left}, which a run that ended left there")
            where.check()
            where.remove(left)
        version = max([int(clock()), *(int(name) + 1 for name in names if name.isdecimal())])
        try:
            where.add(model, version)
            yield Stage(version, where)
        finally:
            where.remove(version)


@contextlib.contextmanager
def _explained(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, RunError):
            raise
        raise RunError(
            f"deploy.canary.server.folder: the candidate cannot be staged in {folder}: {error}\n"
            "  Make the folder writable, or set another one that the server watches."
        ) from error


class _LocalFolder:
    """A path. A version appears and disappears in one step."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        self._path.mkdir(parents=True, exist_ok=True)
        with locked(self._path):
            yield

    def check(self) -> None:
        pass

    def names(self) -> list[str]:
        return [path.name for path in self._path.iterdir()]

    def add(self, model: Path, version: int) -> None:
        write_text(self._path / f"{MARK}{version}", "")
        copying = self._path / f"{COPYING}{version}"
        shutil.copytree(model, copying)
        sync_tree(copying)
        copying.rename(self._path / str(version))
        sync_folder(self._path)

    def remove(self, version: int) -> None:
        copying = self._path / f"{COPYING}{version}"
        shutil.rmtree(copying, ignore_errors=True)
        if (there := versions(self._path).get(version)) is not None:
            there.rename(copying)
            shutil.rmtree(copying)
        (self._path / f"{MARK}{version}").unlink(missing_ok=True)


class _ObjectStore:
    """A folder in S3 or Google Cloud Storage."""

    def __init__(self, folder: str) -> None:
        from headrace.common.errors import DataError
        from headrace.common.storage.filesystems import filesystem, parse_location, promptly

        try:
            location = parse_location(folder.rstrip("/"))
            self._system, self._prompt = filesystem(location), promptly(location)
        except DataError as error:
            raise RunError(f"deploy.canary.server.folder: {error}") from None
        self._path = location.arrow
        self._claim: HeldLock

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        what = "another run stages a version there; waiting until it has removed it"
        with contextlib.ExitStack() as stack:
            lock = held(self._prompt, f"{self._path}/{LOCK}", f"deploy.canary.server.folder: {what}")
            try:
                self._claim = stack.enter_context(lock)
            except RunError as error:
                raise RunError(f"deploy.canary.server.folder: {error}") from None
            yield

    def check(self) -> None:
        try:
            self._claim.check()
        except RunError as error:
            raise RunError(f"deploy.canary.server.folder: {error}") from None

    def names(self) -> list[str]:
        return [info.base_name for info in self._listed(self._path, recursive=False)]

    def add(self, model: Path, version: int) -> None:
        self.check()
        self._put(b"", f"{self._path}/{MARK}{version}")
        for path in sorted(path for path in model.rglob("*") if path.is_file() and path != model / GRAPH):
            self._copy(path, self._named(version, str(path.relative_to(model))))
        copying = f"{self._path}/{COPYING}{version}"  # a store copies in one step, so no server sees half of it
        self._copy(model / GRAPH, copying)
        self.check()
        self._prompt.copy_file(copying, self._named(version, GRAPH))
        self._prompt.delete_file(copying)

    def remove(self, version: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(self._named(version, GRAPH))
        if self._listed(self._named(version)):
            self._system.delete_dir(self._named(version))
        for name in (COPYING, MARK):
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_file(f"{self._path}/{name}{version}")

    def _named(self, version: int, *names: str) -> str:
        return "/".join([self._path, str(version), *names])

    def _copy(self, file: Path, path: str) -> None:
        from headrace.common.storage.writer import put_file

        put_file(self._prompt, file, path, self.check)

    def _put(self, content: bytes, path: str) -> None:
        with self._target(path) as target:
            target.write(content)

    def _target(self, path: str) -> Any:
        return self._prompt.open_output_stream(path, compression=None)  # by its default it would compress *.gz

    def _listed(self, path: str, *, recursive: bool = True) -> list[Any]:
        from pyarrow import fs

        return list(self._system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=recursive)))
