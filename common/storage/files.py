"""Access to data: local files and objects in S3 and Google Cloud Storage, all read in the same way.

for path in resolve("s3://trips/2026-*/*.csv"):
    print(stat(path).size)
    with open_file(path) as stream:
        stream.seek(100)
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from headrace.common.errors import DataError
from headrace.common.storage.paths import at_once, is_remote, resolve

__all__ = [
    "UNKNOWN",
    "FileState",
    "arrow_file",
    "at_once",
    "checksum",
    "each_once",
    "is_folder",
    "is_remote",
    "open_file",
    "reading",
    "resolve",
    "stat",
    "stats",
]


UNKNOWN = -1
"""The size of data of which nothing is known before it is read."""


@dataclass(frozen=True)
class FileState:
    """The state of a file.

    `mark` changes when the file does: for local files the modification time in nanoseconds since 1970, for objects the
    ETag or generation.
    """

    path: str
    size: int
    mark: str


def stat(path: str) -> FileState:
    """The present state of a file. Raises DataError if it does not exist."""
    if is_remote(path):
        from headrace.common.storage.reader import object_state

        return FileState(path, *object_state(path))
    with reading(path):
        found = Path(path).stat()
    return FileState(path, found.st_size, str(found.st_mtime_ns))


def stats(paths: Sequence[str]) -> list[FileState]:
    """The present states of files."""
    return at_once(stat, paths)


def each_once(paths: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """The paths, sorted, with each file under one name only; and its other names, each with the chosen one.

    Local files are identified by device and inode, so symbolic and hard links are other names of a file; objects by
    their key. The shortest name without a symbolic link is chosen, or else the shortest.
    """
    names: dict[object, list[str]] = {}
    for path in sorted(set(paths)):
        names.setdefault(_identity(path), []).append(path)
    chosen = {
        min(own, key=lambda path: (_is_linked(path), len(path), path)) if len(own) > 1 else own[0]: own
        for own in names.values()
    }
    return sorted(chosen), {path: name for name, own in chosen.items() for path in own if path != name}


def _identity(path: str) -> object:
    if is_remote(path):
        return path
    with reading(path):
        found = Path(path).stat()
    return (found.st_dev, found.st_ino) if found.st_ino else path


def _is_linked(path: str) -> bool:
    return not is_remote(path) and os.path.realpath(path) != path


def open_file(path: str) -> BinaryIO:
    """The bytes of a file as an unbuffered, seekable stream. Errors, now or while it is read, are DataErrors that name
    the file.
    """
    if is_remote(path):
        from headrace.common.storage.reader import RemoteFile

        return cast(BinaryIO, RemoteFile(path))
    with reading(path):
        return cast(BinaryIO, _LocalFile(path))


def arrow_file(path: str) -> Any:
    """A file in the form that pyarrow's readers take: a local path, or a pyarrow.NativeFile. Read it inside
    `reading(path)`, which turns errors into DataErrors.
    """
    if is_remote(path):
        from headrace.common.storage.reader import open_object

        return open_object(path)
    return path


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn OSErrors into DataErrors that name the file."""
    try:
        yield
    except OSError as error:
        if is_remote(path):
            from headrace.common.storage.errors import object_error

            raise object_error(error, path) from None
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error


def is_folder(path: str) -> bool:
    if is_remote(path):
        from headrace.common.storage import find

        return find.is_folder(path)
    return Path(path).expanduser().is_dir()


def checksum(path: str) -> str:
    """SHA-256 of the content, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open_file(path) as stream:
        while part := stream.read(1 << 21):
            digest.update(part)
    return digest.hexdigest()


class _LocalFile(io.FileIO):
    def read(self, size: int | None = -1, /) -> bytes:
        with reading(str(self.name)):
            return super().read(-1 if size is None else size)

    def readall(self) -> bytes:
        with reading(str(self.name)):
            return super().readall()

    def readinto(self, buffer: Any, /) -> int:
        with reading(str(self.name)):
            return super().readinto(buffer)
