"""The API server of a stock Kubeflow Pipelines release on loopback: its own code, built from kfp_backend/main.go.

with serving(binary) as server:
    kfp.Client(host=server.url)

It needs Go, and the release's Go modules, which kfp_backend/go.mod names like any others. Only the first build takes
minutes.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from go_programs import GoModule, started

SOURCE = Path(__file__).parent / "kfp_backend"
MODULE = "github.com/kubeflow/pipelines"
MODULES = (MODULE, f"{MODULE}/api", f"{MODULE}/kubernetes_platform")
"""The release's Go modules."""


def build(folder: Path) -> Path:
    """Build the server in an empty folder. Raises BuildError where Go is missing, or a module cannot be had."""
    module = GoModule.copied(SOURCE, folder)
    module.download(*MODULES)
    return module.build(".", "kfp_backend")


def build_command(server: Path, name: str) -> Path:
    """One of the commands of the release itself, beside the server that was built: `driver`, `launcher-v2`."""
    built = server.with_name(name)
    return built if built.exists() else GoModule(server.parent).build(f"{MODULE}/backend/src/v2/cmd/{name}", name)


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
