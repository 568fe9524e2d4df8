"""Programs in Go that tests build from a folder with a go.mod. Go keeps what it built for the next time.

go = GoModule.copied(Path(__file__).parent / "kfp_backend", folder)
go.build("github.com/kubeflow/pipelines/backend/src/v2/cmd/driver", "driver")
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class BuildError(Exception):
    """Why a program cannot be built here, for the message of the tests that are skipped."""


@dataclass(frozen=True)
class GoModule:
    """A folder with a go.mod and go.sum, which a build completes by what they do not name."""

    folder: Path

    @classmethod
    def copied(cls, source: Path, folder: Path) -> GoModule:
        """The files of a folder of the tests, in an empty one."""
        for file in source.iterdir():
            shutil.copy(file, folder)
        return cls(folder)

    def download(self, *modules: str) -> None:
        """Fetch modules with the checksums in go.sum. Raises BuildError."""
        self._go("mod", "download", *modules)

    def build(self, package: str, name: str, *options: str) -> Path:
        """The program of a package: `.` for the folder's own. Raises BuildError."""
        self._go("build", "-mod=mod", *options, "-o", name, package)
        return self.folder / name

    def _go(self, *arguments: str) -> None:
        go = shutil.which("go")
        if go is None:
            raise BuildError("Go is not installed")
        done = subprocess.run([go, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"
            raise BuildError(f"`go {arguments[0]} {arguments[1]}` failed: {last}")


@contextlib.contextmanager
def started(log: Path, *command: str) -> Iterator[str]:
    """A program that prints its address, and ends when its standard input is closed; the address."""
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, log.read_text(encoding="utf-8")
        try:
            yield address
        finally:
            process.stdin.close()
            process.wait(600)
