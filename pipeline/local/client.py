"""The command's side of the fork server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from headrace.common.errors import RunError
from headrace.common.locks import wait_until_free
from headrace.common.tracebacks import OWN_CODE
from headrace.configs.config import PipelineConfig
from headrace.pipeline.code.modules import search_path
from headrace.pipeline.local.server_process import ServerProcess
from headrace.pipeline.terminal.logs import own_code

CHILD_SECONDS = 10.0
"""How long to wait for the components' own processes. They die in milliseconds; in seconds on a very busy machine."""

END_SECONDS = 1.0
"""How long the server may take to end everything by itself, before it is killed: it also waits for the child that has
no component, which nobody else does in some containers.
"""


class ForkServer:
    """Asks the fork server to run components, and kills it with all its children at the end.

    with ForkServer(config, log, processes_file) as server:
        nodes = server.nodes()
        server.run(node="Spans", ...)
        for message in server.events(): ...

    processes_file: a file that the server and its children hold (`headrace.common.locks`) until the last has ended;
    process: one that has been started before; without it, one is started.
    """

    def __init__(
        self, config: PipelineConfig, log: Path, processes_file: Path, process: ServerProcess | None = None
    ) -> None:
        self._log, self._processes_file = log, processes_file
        self.plan_key: str | None = None  # of the nodes, once they are known (known_plan.py)
        self._ready = False
        self._process = process or ServerProcess()
        self._connection = self._process.connection
        try:
            log.touch()
            settings, held = config.model_dump_json(by_alias=True), str(processes_file)
            with contextlib.suppress(ConnectionError):  # it has ended, as `events` will say
                self._connection.send(config=settings, path=search_path(), processes_file=held)
        except BaseException:  # such as a full disk, or Ctrl-C
            self._process.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.close()

    def kill(self) -> None:
        """Kill the server and everything that it started; none of it runs when this returns."""
        try:
            if self._ready:  # else it would first import
                self._process.end(END_SECONDS)
        finally:  # also after another Ctrl-C
            self._process.kill()
        self._write_log()
        wait_until_free(self._processes_file, CHILD_SECONDS)

    def _write_log(self) -> None:
        with contextlib.suppress(OSError):  # the disk may be full
            self._log.write_bytes(self._process.output())

    def stop(self, seconds: float) -> None:
        """Ask all components that run to end, and wait at most `seconds`: a Trainer writes a checkpoint first."""
        if not self._ready:  # none can run, and a process that imports does not answer
            return
        deadline = time.monotonic() + seconds
        with contextlib.suppress(RunError, OSError):
            self._connection.send(stop=True)
            while self._connection.wait(deadline - time.monotonic()):
                if any(message["event"] == "stopped" for message in self.events()):
                    break

    def nodes(self) -> list[dict[str, Any]]:
        """Wait until the server is ready, and return its nodes in topological order.

        Raises RunError if the pipeline cannot be built.
        """
        (message,) = self.events()
        self._write_log()
        if message["event"] == "failed":
            own = "".join(f"\n  {line}" for line in own_code(self._log))
            log = f"\n  log: {self._log}" if own or not message["expected"] else ""
            raise RunError(message["error"] + (f"\n{OWN_CODE}{own}" if own else "") + log)
        nodes: list[dict[str, Any]] = message["nodes"]
        self.plan_key, self._ready = message["key"], True
        return nodes

    def run(self, **request: Any) -> None:
        """Start one component (see `headrace.pipeline.local.fork_server`)."""
        self._connection.send(**request)

    def events(self) -> Iterator[dict[str, Any]]:
        """Wait for messages. Raises RunError if the server has died."""
        messages: list[dict[str, Any]] = []
        while not messages:
            try:
                messages = list(self._connection.receive())
            except (EOFError, ConnectionError):
                code = self._process.wait()
                self._write_log()
                raise RunError(
                    f"the process that runs the components ended unexpectedly (exit code {code}).\n"
                    f"  log: {self._log}\n  `headrace doctor` checks this machine's environment."
                ) from None
        return iter(messages)
