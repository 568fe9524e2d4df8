"""A tf.data service on this machine: a dispatcher and workers, each a process, started again where one dies.

with LocalService(port=5050, workers=2, work_dir=folder) as service:
    service.wait_until_ready(60)
    service.watch()             # until interrupted
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.configs.errors import RunError
from headrace.configs.lock import held
from headrace.trainer.service.probe import alive_workers
from headrace.trainer.service.roles import JOURNAL, LOOPBACK, free_ports

GRACE = 5.0
"""Seconds that a process has to end by itself."""
SOON, TOO_SOON = 60.0, 5
"""Times in a row that a process may die within so many seconds of its start before the service gives up."""
LOCK = "lock"


@dataclass
class _Process:
    """One role, and the process that plays it now."""

    name: str
    arguments: list[str]
    popen: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    """In a row, each soon after the start."""


class LocalService:
    """Starts the processes; leaving the context ends them all. One at a time has a `work_dir`."""

    def __init__(  # noqa: PLR0913
        self,
        port: int,
        workers: int,
        work_dir: Path,
        *,
        host: str = "localhost",
        listen: str = LOOPBACK,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._open = ExitStack()
        free, *own_ports = free_ports(1 + workers)
        self.port = port or free
        self.work_dir = work_dir
        self._pipe = os.pipe()
        base = ["--work-dir", str(work_dir), "--host", host, "--listen", listen]
        self._processes = [_Process("dispatcher", ["--role", "dispatcher", "--port", str(self.port), *base])]
        for number, own_port in enumerate(own_ports, 1):
            own = ["--port", str(own_port), "--dispatcher", f"localhost:{self.port}"]
            self._processes.append(_Process(f"worker-{number}", ["--role", "worker", *own, *base]))

    @property
    def address(self) -> str:
        """What `train.input.service` is set to."""
        return f"grpc://localhost:{self.port}"

    @property
    def pids(self) -> dict[str, int]:
        """Of each process, by name."""
        return {process.name: process.popen.pid for process in self._processes if process.popen}

    def __enter__(self) -> Self:
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self._lock()
        shutil.rmtree(self.work_dir / JOURNAL, ignore_errors=True)  # it tells of workers that are no more
        for process in self._processes:
            self._start(process)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = [process.popen for process in self._processes if process.popen]
        for popen in running:
            popen.terminate()
        end = time.monotonic() + GRACE
        for popen in running:
            try:
                popen.wait(max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                popen.kill()
                popen.wait()
        for descriptor in self._pipe:
            os.close(descriptor)
        self._open.close()

    def wait_until_ready(self, timeout: float) -> None:
        """Raises RunError where a process does not start, with the end of its log."""
        end = time.monotonic() + timeout
        while len(alive_workers(f"localhost:{self.port}", 1.0)) < len(self._processes) - 1:
            self._raise_for_the_dead()
            if time.monotonic() > end:
                raise RunError(
                    f"the tf.data service was not ready within {timeout:g} s; see the logs in {self.work_dir}"
                )
            time.sleep(0.2)

    def watch(self, tell: Callable[[str], None], pause: float = 0.5) -> None:
        """Start those again that die, for ever. Raises RunError for one that dies again and again."""
        while True:
            time.sleep(pause)
            self.mend(tell)

    def mend(self, tell: Callable[[str], None]) -> None:
        """Start those again that have died."""
        for process in self._processes:
            code = process.popen.poll() if process.popen else None
            if code is None:
                continue
            process.deaths = process.deaths + 1 if self._clock() - process.started < SOON else 1
            if process.deaths > TOO_SOON:
                times = f"{process.deaths} times, each soon after its start"
                raise RunError(f"the {process.name} died {times}; see {self._log(process)}")
            tell(f"the {process.name} ended with {code}; started again")
            self._start(process)

    def _lock(self) -> None:
        """The journal and the logs are those of one service, which holds this until it ends, however it ends."""
        told = f"another tf.data service runs with its journal in {self.work_dir}; give this one a folder of its own"
        self._open.enter_context(held(self.work_dir / LOCK, f"{told} with --work-dir"))

    def _start(self, process: _Process) -> None:
        process.started = self._clock()
        command = [sys.executable, "-P", "-m", "headrace", "tfdata-service", *process.arguments]
        own = {"HEADRACE_PARENT_PIPE": str(self._pipe[0]), "CUDA_VISIBLE_DEVICES": "-1"}
        environment = {**os.environ, **own}
        with self._log(process).open("ab") as log:
            process.popen = subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, pass_fds=[self._pipe[0]],
                start_new_session=True,
            )  # fmt: skip

    def _log(self, process: _Process) -> Path:
        return self.work_dir / f"{process.name}.log"

    def _raise_for_the_dead(self) -> None:
        for process in self._processes:
            if process.popen and process.popen.poll() is not None:
                lines = self._log(process).read_text(errors="replace", encoding="utf-8").strip().splitlines()
                raise RunError(f"the {process.name} did not start: {lines[-1] if lines else 'it left no word'}")
