"""Kubeflow Model Registry's own server on loopback, release 0.3.0, with a MySQL database in memory behind it.

with registry_server(build(folder)) as registry:
    registry.get("registered_model", name="taxi")

It needs Go, and the Go modules that registry_database/go.mod names; only the first build takes minutes. Newer releases
are containers alone.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command import wait_until
from go_programs import GoModule, started

from headrace.trainer.service.ports import free_port

SOURCE = Path(__file__).parent / "registry_database"
MODULE = "github.com/kubeflow/model-registry"
API = "/api/model_registry/v1alpha3"


@dataclass(frozen=True)
class Programs:
    """What was built."""

    registry: Path
    database: Path


def build(folder: Path) -> Programs:
    """Build both in an empty folder. Raises BuildError where Go is missing, or a module cannot be had."""
    module = GoModule.copied(SOURCE, folder)
    module.download(MODULE, f"{MODULE}/pkg/openapi")
    registry = module.build(MODULE, "registry")
    return Programs(registry, module.build(".", "database", "-tags", "gms_pure_go"))


@dataclass(frozen=True)
class RegistryServer:
    """A server that is up."""

    url: str

    def answer(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """The status of a request, and the answer if it is JSON. path: from `/api` on."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, None

    def get(self, path: str, **query: str) -> Any:
        """What is at a path of the API."""
        status, found = self.answer("GET", f"{API}/{path}?{urllib.parse.urlencode(query)}")
        assert status == 200, (path, status)
        return found

    def versions(self, model: str) -> dict[str, dict[str, Any]]:
        """The versions of a registered model by name; up to a hundred."""
        id_ = self.get("registered_model", name=model)["id"]
        listed = self.get(f"registered_models/{id_}/versions", pageSize="100")["items"]
        return {one["name"]: one for one in listed}

    def texts(self, model: str, key: str) -> dict[str, str | None]:
        """A custom property of every version."""
        found = self.versions(model).items()
        return {name: one["customProperties"].get(key, {}).get("string_value") for name, one in found}

    def artifacts(self, model: str) -> dict[str, list[dict[str, Any]]]:
        """The artifacts of every version."""
        found = self.versions(model).items()
        return {name: self.get(f"model_versions/{one['id']}/artifacts")["items"] for name, one in found}


@contextlib.contextmanager
def registry_server(programs: Programs) -> Iterator[RegistryServer]:
    """A server with nothing in it, until the end of the block."""
    server, log = RegistryServer(f"http://127.0.0.1:{free_port()}"), programs.registry.with_suffix(".log")
    with started(programs.database.with_suffix(".log"), str(programs.database)) as address, log.open("w") as output:
        source = f"root@tcp({address})/registry?charset=utf8mb4&parseTime=True&loc=UTC"
        options = ["--hostname", "127.0.0.1", "--port", server.url.rpartition(":")[2], "--logtostderr"]
        database = ["--embedmd-database-type", "mysql", "--embedmd-database-dsn", source]
        command = [str(programs.registry), "proxy", *options, *database]
        with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
            try:
                assert wait_until(lambda: process.poll() is not None or _is_up(server.url)), log.read_text()
                assert process.poll() is None, log.read_text()
                yield server
            finally:
                process.terminate()


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
