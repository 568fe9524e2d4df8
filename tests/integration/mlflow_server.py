"""MLflow's own server, which asks for a login, in an environment of its own: it would change versions that the lock of
the project has.

with mlflow_server(folder) as mlflow:
    mlflow.get("registered-models/get", name="taxi")
    mlflow.download("models:/taxi@champion", folder / "model")    # by MLflow's own client

The packages come from the index by uv, which `make env` installs; without an answer the tests skip, and say so. The
environment stays beside this one's packages, with its bytecode, for the next time.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import wait_until

from headrace.common.locks import wait_and_hold
from headrace.trainer.service.ports import free_ports

MLFLOW = "mlflow[auth]==3.17.2"
USER, PASSWORD = "registrar", "x9Yz8Wv7Ut6Sr5Qp4"
AUTHORIZATION = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
"""The header without which the server answers 401."""
LOGIN = """\
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = sqlite:///{folder}/login.db
admin_username = {user}
admin_password = {password}
authorization_function = login:compared
"""
COMPARED = """\
import os
from flask import request
from mlflow.server.auth import make_basic_auth_response

def compared():
    given = request.headers.get("Authorization")
    return request.authorization if given == os.environ["LOGIN"] else make_basic_auth_response()
"""
"""MLflow hashes the password of each request, which takes it a sixth of a CPU second."""
SECONDS = 300
"""Within which the packages are fetched."""
WITH_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""Some containers forbid it: each of MLflow's processes would then compile 2,000 modules."""


@dataclass(frozen=True)
class MlflowServer:
    """A server with nothing in it. python: the interpreter of its environment."""

    url: str
    python: Path

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """The answer of its REST API."""
        url = f"{self.url}/api/2.0/mlflow/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Authorization": AUTHORIZATION})) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def versions(self, model: str) -> dict[str, dict[str, Any]]:
        """The versions of a registered model by number, each with its tags by name."""
        found = self.get("model-versions/search", filter=f"name='{model}'").get("model_versions", [])
        return {one["version"]: {**one, "tags": {tag["key"]: tag["value"] for tag in one["tags"]}} for one in found}

    def alias(self, model: str, alias: str = "champion") -> str:
        """The version that an alias names."""
        version: str = self.get("registered-models/alias", name=model, alias=alias)["model_version"]["version"]
        return version

    def download(self, uri: str, folder: Path) -> None:
        """Fetch a model with MLflow's own client."""
        program = "import sys, mlflow; mlflow.artifacts.download_artifacts(sys.argv[1], dst_path=sys.argv[2])"
        login = {"MLFLOW_TRACKING_USERNAME": USER, "MLFLOW_TRACKING_PASSWORD": PASSWORD}
        environment = {**os.environ, **WITH_BYTECODE, "MLFLOW_TRACKING_URI": self.url, **login}
        subprocess.run(
            [str(self.python), "-c", program, uri, str(folder)], check=True, env=environment, timeout=SECONDS
        )


def installed() -> Path:
    """The interpreter of an environment with MLflow. Skips the test if the packages cannot be fetched."""
    uv, folder = Path(sys.executable).with_name("uv"), Path(sys.prefix, "of-tests", MLFLOW)
    if not uv.exists():
        pytest.skip("uv is not installed")
    python, made = folder / "bin" / "python", folder / "made"
    folder.parent.mkdir(exist_ok=True)
    with wait_and_hold(folder.with_name(f"{MLFLOW}.lock")):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _uv(str(uv), "venv", "--quiet", "--python", sys.executable, str(folder))
            _uv(str(uv), "pip", "install", "--quiet", "--python", str(python), MLFLOW)
            made.touch()
    return python


def _uv(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"uv got no answer in {SECONDS} s")
    if done.returncode:
        pytest.skip(f"uv could not install MLflow: {done.stderr.strip()[:200]}")


@contextlib.contextmanager
def mlflow_server(folder: Path) -> Iterator[MlflowServer]:
    """Its own server with its own artifact store, on loopback."""
    python = installed()
    (port,) = free_ports(1)
    server = MlflowServer(f"http://127.0.0.1:{port}", python)
    stores = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"{folder}/artifacts"]
    where = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    with (folder / "mlflow.log").open("w") as log:
        process = subprocess.Popen(
            [str(python), "-m", "mlflow", "server", "--app-name", "basic-auth", *stores, *where],
            cwd=folder,
            env={
                **os.environ,
                **WITH_BYTECODE,
                **_login(folder),
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            },  # eight more processes
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        assert wait_until(lambda: process.poll() is not None or _is_up(server.url)), (folder / "mlflow.log").read_text()
        assert process.poll() is None, (folder / "mlflow.log").read_text()
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _login(folder: Path) -> dict[str, str]:
    """What the server's environment says of logins."""
    settings = folder / "login.ini"
    settings.write_text(LOGIN.format(folder=folder, user=USER, password=PASSWORD))
    (folder / "login.py").write_text(COMPARED)
    return {
        "LOGIN": AUTHORIZATION,
        "PYTHONPATH": str(folder),
        "MLFLOW_AUTH_CONFIG_PATH": str(settings),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "of a test",
    }


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
