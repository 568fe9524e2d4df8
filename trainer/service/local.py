"""A tf.data service on this machine: a dispatcher and workers as processes, which are restarted when they die.

with LocalService(port=5050, workers=2, work_dir=folder) as service:
    service.wait_until_ready(60)
    service.watch(print)        # until interrupted
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

from headrace.common.errors import RunError
from headrace.common.locks import hold
from headrace.trainer.service.ports import free_ports
from headrace.trainer.service.probe import alive_workers
from headrace.trainer.service.roles import JOURNAL, LOOPBACK

GRACE = 5.0
"""Seconds that a process has to exit by itself."""
SOON, MAX_DEATHS = 60.0, 5
"""The service gives up when a process dies more than this many times in a row within this many seconds of its start."""
LOCK = "lock"


@dataclass
class _Process:
    """One role, and the process that currently runs it."""

    name: str
    arguments: list[str]
    popen: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    """Deaths in a row, each soon after the start."""


class LocalService:
    """Starts the processes, and ends them when the context is left. A `work_dir` belongs to one service at a time."""

    def __init__(
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
        """The value for `train.input.service`."""
        return f"grpc://localhost:{self.port}"

    @property
    def pids(self) -> dict[str, int]:
        """The process ids by name."""
        return {process.name: process.popen.pid for process in self._processes if process.popen}

    def __enter__(self) -> Self:
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self._lock()
        shutil.rmtree(self.work_dir / JOURNAL, ignore_errors=True)  # it refers to workers that no longer exist
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
        """Raise RunError with the end of its log if a process does not start."""
        end = time.monotonic() + timeout
        while len(alive_workers(f"localhost:{self.port}", 1.0)) < len(self._processes) - 1:
            self._raise_if_dead()
            if time.monotonic() > end:
                raise RunError(
                    f"the tf.data service was not ready within {timeout:g} s; see the logs in {self.work_dir}"
                )
            time.sleep(0.2)

    def watch(self, report: Callable[[str], None], pause: float = 0.5) -> None:
        """Restart processes that die, forever. Raises RunError for one that dies repeatedly."""
        while True:
            time.sleep(pause)
            self.restart_dead(report)

    def restart_dead(self, report: Callable[[str], None]) -> None:
        """Restart the processes that have died."""
        for process in self._processes:
            code = process.popen.poll() if process.popen else None
            if code is None:
                continue
            process.deaths = process.deaths + 1 if self._clock() - process.started < SOON else 1
            if process.deaths > MAX_DEATHS:
                times = f"{process.deaths} times, each soon after its start"
                raise RunError(f"the {process.name} died {times}; see {self._log(process)}")
            report(f"the {process.name} ended with {code}; restarted")
            self._start(process)

    def _lock(self) -> None:
        """Lock the folder, whose journal and logs belong to this service until it ends, however it ends."""
        message = f"another tf.data service runs with its journal in {self.work_dir}; give this one a folder of its own"
        self._open.enter_context(hold(self.work_dir / LOCK, lambda: f"{message} with --work-dir"))

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

    def _raise_if_dead(self) -> None:
        for process in self._processes:
            if process.popen and process.popen.poll() is not None:
                lines = self._log(process).read_text(errors="replace", encoding="utf-8").strip().splitlines()
                raise RunError(f"the {process.name} did not start: {lines[-1] if lines else 'its log is empty'}")
