"""The file that makes a snapshot one: it is written last, and says what must be there."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

from headrace.configs.checksums import file_checksum
from headrace.trainer.input.snapshot_key import Key

FILE = "snapshot.json"


@dataclass(frozen=True)
class Manifest:
    """What a snapshot was made of, and its files."""

    key: Key
    files: dict[str, str]
    """Path below the snapshot's folder to size and CRC-32C."""

    @classmethod
    def of(cls, folder: Path, key: Key) -> Manifest:
        """Of the files as they are now."""
        return cls(key, _files(folder))

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """None where there is none that can be read."""
        try:
            told = json.loads((folder / FILE).read_text(encoding="utf-8"))
            return cls(Key(**told["key"]), dict(told["files"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    @staticmethod
    def last_used(folder: Path) -> float:
        """When it was, in seconds since 1970; 0 where it is no snapshot."""
        try:
            return (folder / FILE).stat().st_mtime
        except OSError:
            return 0.0

    def write(self, folder: Path) -> None:
        """Write it; with it, the snapshot is whole."""
        (folder / FILE).write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")

    def touch(self, folder: Path) -> None:
        """Note that it is used now."""
        os.utime(folder / FILE)

    def intact(self, folder: Path) -> bool:
        """Whether every file is there as it was."""
        try:
            return _files(folder) == self.files
        except OSError:
            return False


def _files(folder: Path) -> dict[str, str]:
    inside = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != FILE)
    return {str(path.relative_to(folder)): f"{path.stat().st_size} {file_checksum(path):08x}" for path in inside}
