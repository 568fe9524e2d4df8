"""Which files there are to read, with a fingerprint that changes when they do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from configs.errors import DataError


@dataclass(frozen=True)
class FileState:
    """A file as it was seen: size in bytes, time of the last change in nanoseconds since 1970."""

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> FileState:
        """The file as it is now."""
        try:
            state = Path(path).stat()
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
        return cls(path, state.st_size, state.st_mtime_ns)


@dataclass(frozen=True)
class Manifest:
    """Files in the order of their paths."""

    files: tuple[FileState, ...]

    @classmethod
    def of(cls, paths: Sequence[str]) -> Manifest:
        """The files as they are now."""
        return cls(tuple(FileState.of(path) for path in sorted(paths)))

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [file.path for file in self.files]

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal digits, of all paths, sizes and times."""
        return hashlib.sha256(self._listed().encode()).hexdigest()

    def to_json(self) -> str:
        """The manifest as it stands in the artifact of Spans."""
        return json.dumps({"files": json.loads(self._listed()), "fingerprint": self.fingerprint})

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` wrote."""
        return cls(tuple(FileState(**file) for file in json.loads(text)["files"]))

    def check_unchanged(self) -> None:
        """Raise DataError if a file is no longer as it was."""
        for file in self.files:
            if FileState.of(file.path) != file:
                raise DataError(
                    "the file changed during the run", file=file.path, hint="Run again when nothing writes to it"
                )

    def _listed(self) -> str:
        return json.dumps([asdict(file) for file in self.files])
