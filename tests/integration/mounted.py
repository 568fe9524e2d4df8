"""A file system in memory that may be full or read-only: disks that refuse, without a mock."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Disk:
    """A file system, mounted at `folder`."""

    folder: Path

    def remount(self, options: str) -> None:
        """With other options, such as `ro`, `rw` or `size=4m`."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.folder)], check=True)

    def resize(self, size: str) -> None:
        self.remount(f"size={size}")

    def fill(self) -> Path:
        """Until nothing more goes in; the file that did it."""
        file = self.folder / "filling"
        with file.open("wb", buffering=0) as stream:
            for size in (1 << 20, 4096):
                with contextlib.suppress(OSError):
                    while True:
                        stream.write(bytes(size))
        return file


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Disk]:
    """A new file system of that size. Skips the test if this user may mount none."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a file system, and not in every container")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
