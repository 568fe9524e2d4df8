"""TensorFlow Serving for the tests: a stand-in in a process of its own, as PyPI and Debian have no such program.

with serving_server(folder, "--model_name=parcels", f"--model_base_path={watched}") as server:
    server.faults(times=1.5)                # its answers are wrong from now on
    server.faults(refuse_to_load="no such operation", if_larger_than=100_000)
    server.faults(slow_to_load=3, die_of_loading=True, die_at=100, die_of_empty=True)
    server.stop(); server.start()

What it does is in serving_process.py and serving_models.py. Like all that tests start, it ends with them (guard.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from forks import Forked

from headrace.trainer.service.ports import free_ports

PROGRAM = Path(__file__).with_name("serving_process.py")
PATIENCE = 300.0


class ServingServer:
    """rest, grpc: the addresses, as the config names them."""

    def __init__(
        self, folder: Path, *flags: str, encrypted: bool = False, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        rest, grpc = free_ports(2)
        self.folder, self.rest, self.grpc = folder, f"http{'s' * encrypted}://127.0.0.1:{rest}", f"127.0.0.1:{grpc}"
        self._faults = folder / "faults.json"
        self._command = [sys.executable, str(PROGRAM), f"--port={grpc}", f"--rest_api_port={rest}", *flags]
        self._command.append(f"--faults={self._faults}")
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, in place of one that still runs, and wait until it answers."""
        self.stop()
        with (self.folder / "server.log").open("ab") as log:
            self._process = Forked(  # a start of its own would import TensorFlow each time
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", **self._environment},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == b"ready\n", (self.folder / "server.log").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process is None or self._process.poll() is not None

    def faults(self, **faults: Any) -> None:
        """What it does wrong, in place of what it did wrong until now."""
        new = self._faults.with_suffix(".new")
        new.write_text(json.dumps(faults))
        new.replace(self._faults)

    def states(self, model: str) -> dict[int, str]:
        """The states of the versions, asked over REST without encryption."""
        try:
            with urllib.request.urlopen(f"{self.rest}/v1/models/{model}") as answer:
                found = json.loads(answer.read())["model_version_status"]
        except urllib.error.HTTPError:
            return {}
        return {int(one["version"]): one["state"] for one in found}

    def wait_for(self, model: str, version: int, state: str) -> None:
        """Wait until a version has a state."""
        end = time.monotonic() + PATIENCE
        while self.states(model).get(version) != state:
            assert time.monotonic() < end, self.states(model)
            time.sleep(0.05)


@contextlib.contextmanager
def serving_server(
    folder: Path, *flags: str, encrypted: bool = False, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[ServingServer]:
    """A server with these flags. folder: for its log and its faults."""
    server = ServingServer(folder, *flags, encrypted=encrypted, environment=environment)
    server.start()
    try:
        yield server
    finally:
        server.stop()
