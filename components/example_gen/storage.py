"""Where data lies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from components.example_gen.paths import resolve
from configs.errors import DataError

__all__ = ["FileState", "checksum", "resolve", "stat"]


@dataclass(frozen=True)
class FileState:
    """A file as it was seen. `mark`: changes when the file does; for local files the time of the last change in
    nanoseconds since 1970.
    """

    path: str
    size: int
    mark: str


def stat(path: str) -> FileState:
    """The file as it is now."""
    try:
        state = Path(path).stat()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
    return FileState(path, state.st_size, str(state.st_mtime_ns))


def checksum(path: str) -> str:
    """SHA-256 of the content, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
