"""The API server of a stock Kubeflow Pipelines release on loopback: its own code, built from kfp_backend/main.go.

with serving(binary) as server:
    kfp.Client(host=server.url)

It needs Go, and the release's Go modules, which kfp_backend/go.mod names like any others. Go keeps what it built, so
that only the first build takes minutes.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "kfp_backend"
MODULE = "github.com/kubeflow/pipelines"
MODULES = (MODULE, f"{MODULE}/api", f"{MODULE}/kubernetes_platform")
"""The release's Go modules."""


class BuildError(Exception):
    """Why there is no server here, for the message of the tests that are skipped."""


def build(folder: Path) -> Path:
    """Build the server in an empty folder. Raises BuildError where Go is missing, or a module cannot be had."""
    go = shutil.which("go")
    if go is None:
        raise BuildError("Go is not installed")
    for file in SOURCE.iterdir():
        shutil.copy(file, folder)
    _go(go, folder, "mod", "download", *MODULES)
    _go(go, folder, "build", "-mod=mod", "-o", "kfp_backend", ".")
    return folder / "kfp_backend"


def build_command(server: Path, name: str) -> Path:
    """One of the commands of the release itself, beside the server that was built: `driver`, `launcher-v2`."""
    built = server.with_name(name)
    if not built.exists():
        package = f"{MODULE}/backend/src/v2/cmd/{name}"
        _go(str(shutil.which("go")), server.parent, "build", "-mod=mod", "-o", name, package)
    return built


def _go(go: str, folder: Path, *arguments: str) -> None:
    done = subprocess.run([go, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"
        raise BuildError(f"`go {arguments[0]} {arguments[1]}` failed: {last}")


@dataclass(frozen=True)
class Server:
    """A server that is up."""

    url: str

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return json.load(answer)

    @property
    def services(self) -> str:
        """The address of the same services over gRPC."""
        return str(self.get("/grpc"))

    def workflow(self, name: str) -> Any:
        """The Argo workflow that a run became."""
        return self.get(f"/argo/{name}")

    def executed(self, name: str) -> Any:
        """The workflow as Argo runs it with Kubeflow's configuration."""
        return self.get(f"/argo/{name}/executed")

    @property
    def interface(self) -> str:
        """Where the web interface is."""
        return str(self.get("/interface"))


@contextlib.contextmanager
def serving(binary: Path) -> Iterator[Server]:
    """A server with nothing in it, until the end of the block."""
    with started(binary.with_suffix(".log"), str(binary)) as url:
        yield Server(url)


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
