"""The command's side of the warm process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError
from headrace.configs.lock import free, held
from headrace.pipeline.local.wire import Line
from headrace.pipeline.modules import search_path

ORPHANS_SECONDS = 0.5
"""For processes that components have started, which nobody reaps in some containers: they count as there for ever."""
CHILDREN_SECONDS = 10.0
"""For the components' own processes: to die takes milliseconds, or seconds on a machine that is very busy."""


class WarmProcess:
    """Starts it, asks it to run components, and kills it with all its children at the end.

    with WarmProcess(config, log, at_work) as warm:
        nodes = warm.nodes()
        warm.run(node="Spans", ...)
        for message in warm.events(): ...

    at_work: a file that it and its children hold (`headrace.configs.lock`) until the last of them has ended.
    """

    def __init__(self, config: PipelineConfig, log: Path, at_work: Path) -> None:
        ours, theirs = socket.socketpair()
        self._line = Line(ours)
        self._log, self._at_work = log, at_work
        refusal = f"{at_work} is held by another run"
        with log.open("ab") as stream, held(at_work, refusal) as theirs_too:
            handed_on = [theirs.fileno(), theirs_too.fileno()]
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", "headrace.pipeline.local.warm", *map(str, handed_on)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                pass_fds=handed_on,
                start_new_session=True,  # Ctrl-C reaches the command alone, which then ends the group
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        theirs.close()
        self._line.send(config=config.model_dump_json(by_alias=True), path=search_path())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._line.close()

    def kill(self) -> None:
        """End it and all that it started; nothing of it runs when this returns."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._wait_for_children()
        free(self._at_work, CHILDREN_SECONDS)

    def stop(self, running: int, seconds: float) -> None:
        """Ask so many components to end, and wait for them, at most that long: a Trainer keeps what it has."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(RunError, OSError):
            if running:
                self._line.send(stop=True)
            while running > 0 and select.select([self._line], [], [], max(deadline - time.monotonic(), 0))[0]:
                running -= sum(message["event"] == "ended" for message in self.events())

    def _wait_for_children(self) -> None:
        """Until the group is empty; not for ever, as nobody reaps orphans in some containers."""
        deadline = time.monotonic() + ORPHANS_SECONDS
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(self._process.pid, 0)
                time.sleep(0.005)

    def nodes(self) -> list[dict[str, Any]]:
        """Wait until it is ready; its nodes, each after all that it needs. RunError if the pipeline cannot be built."""
        (message,) = self.events()
        if message["event"] == "failed":
            raise RunError(message["error"] if message["expected"] else f"{message['error']}\n  log: {self._log}")
        nodes: list[dict[str, Any]] = message["nodes"]
        return nodes

    def run(self, **request: Any) -> None:
        """Start one component (see `headrace.pipeline.local.warm`)."""
        self._line.send(**request)

    def events(self) -> Iterator[dict[str, Any]]:
        """Wait for news. RunError if the process has died."""
        messages: list[dict[str, Any]] = []
        while not messages:
            try:
                messages = list(self._line.receive())
            except (EOFError, ConnectionError):
                code = self._process.wait()
                raise RunError(
                    f"the process that runs the components ended unexpectedly (exit code {code}).\n"
                    f"  log: {self._log}\n  `headrace doctor` looks for what may be wrong with the environment."
                ) from None
        return iter(messages)
