"""Keeps a run of the tests within a limit of memory, and ends all that it started when it ends, however it does.

    config.pluginmanager.register(Guard(limit()))      # in conftest.py

Two bounds, neither of which depends on whether the kernel overcommits memory (`vm.overcommit_memory`):

- No process may map more private memory than the limit (RLIMIT_DATA, which children inherit): a test that asks for
  too much gets a MemoryError, fails, and the others continue. RLIMIT_AS would not do: TensorFlow, the JVM, Go and
  Chromium reserve address space by the terabyte that they never use, which RLIMIT_DATA does not count.
- All processes together may hold no more than that (the sum of their proportional set sizes). A process beside pytest
  looks twice a second; if they do, it names the tests that run and the largest processes, and ends them all.

The same process notices when pytest is gone, by SIGKILL too, and ends what is left: servers, browsers, runs, and what
those started. It needs no rights, no control group and no container; it does need Linux's /proc, and where that is
missing, there is no guard.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
from processes import PROC, Family, Process

GIB = 1 << 30
LEAST = 10 * GIB
"""Bytes. The suite was seen to hold 4.5 GB, while a pipeline runs on Flink, and one process of it to map 2.7 GB."""
FOR_EACH_PROCESS = 6 * GIB
"""Bytes that tests in several processes may hold for each: one was seen to have 3.6 GB of its own after half of the
suite, and starts pipelines.
"""
SHARE = 0.75
"""Of a machine or a container that has less than the limit asks for."""
SETTING = "HEADRACE_TEST_MEMORY"
"""Environment variable with another limit, in GiB."""
TOKENS = "HEADRACE_TESTS"
"""Environment variable that all that the tests start inherits: a word for each pytest above it."""
EVERY = 0.5
"""Seconds between two looks, which take a few milliseconds each."""
EXACT_EVERY = 10.0
"""Seconds at most between two exact sums, where the cheap one is too much: they take half a second."""
GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""
MAX_SHOWN = 5
"""Processes that are named."""


def limit() -> int:
    """Bytes that the tests may hold here."""
    if SETTING in os.environ:
        return int(float(os.environ[SETTING]) * GIB)
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # no such file, or the word `max`
            room = min(room, int(Path("/sys/fs/cgroup", file).read_text(encoding="utf-8")))
    return min(max(LEAST, cores() * FOR_EACH_PROCESS), int(SHARE * room))


def cores() -> int:
    """That may be used here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Guard:
    """A pytest plugin."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._process: subprocess.Popen[str] | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        """Begin, once in a run of several workers: the one that starts the others."""
        if hasattr(config, "workerinput") or not PROC.is_dir():
            return
        _bound(self._most)
        token = uuid.uuid4().hex
        os.environ[TOKENS] = " ".join([*os.environ.get(TOKENS, "").split(), token])
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__, str(os.getpid()), token, str(self._most)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is not for it
        )

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell which test runs."""
        self._say(f"+{nodeid}")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Tell that it has ended."""
        self._say(f"-{nodeid}")

    def pytest_unconfigure(self) -> None:
        """Have what is left ended."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _say(self, line: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode("unicode_escape").decode() + "\n")
            self._process.stdin.flush()


def _bound(most: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


class Watch:
    """What the process beside pytest does."""

    def __init__(self, pytest_pid: int, token: str, most: int) -> None:
        self._pytest, self._most = pytest_pid, most
        self._family = Family(pytest_pid, token)
        self._running: list[str] = []
        self._rest = b""
        self._resident: dict[Process, int] = {}
        self._exact, self._exact_at = 0, -EXACT_EVERY

    def run(self) -> None:
        """Look until pytest closes the pipe or is gone, and end what it left."""
        look = time.monotonic()
        while os.getppid() == self._pytest and self._hear(max(look - time.monotonic(), 0.0)):
            if time.monotonic() < look:
                continue
            look = time.monotonic() + EVERY
            members = self._others()
            if (held := self._held(members)) > self._most:
                self._tell(members, held)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pytest, signal.SIGKILL)
                break
        self._end()

    def _hear(self, seconds: float) -> bool:
        """Take note of the tests that begin and end, for so long at most; whether there may be more."""
        if not select.select([0], [], [], seconds)[0]:
            return True
        data = os.read(0, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name = line[1:].decode()
            if line.startswith(b"+"):
                self._running.append(name)
            elif name in self._running:
                self._running.remove(name)
        return bool(data)

    def _others(self) -> set[Process]:
        return {process for process in self._family.members() if process.pid != os.getpid()}

    def _held(self, members: set[Process]) -> int:
        """Bytes. The cheap sum counts shared pages several times; where it is too much, the exact one is taken,
        and until it is old, what processes grew by since.
        """
        resident = {process: process.resident() for process in self._family.head() | members}
        if (cheap := sum(resident.values())) <= self._most:
            return cheap
        grown = sum(max(size - self._resident.get(process, 0), 0) for process, size in resident.items())
        if self._exact + grown > self._most or time.monotonic() > self._exact_at + EXACT_EVERY:
            self._exact, grown = sum(process.proportional() for process in resident), 0
            self._resident, self._exact_at = resident, time.monotonic()
        return self._exact + grown

    def _tell(self, members: set[Process], held: int) -> None:
        sizes = sorted(((one.proportional(), one) for one in self._family.head() | members), reverse=True)
        lines = [
            f"\nThe tests hold {held / GIB:.1f} GiB of memory and may hold {self._most / GIB:.1f}: they are stopped.",
            *(f"  running: {name}" for name in self._running),
            *(f"  {size / GIB:.2f} GiB: process {one.pid}, {one.command()[:150]}" for size, one in sizes[:MAX_SHOWN]),
            f"  {SETTING}=GIB allows more.",
        ]
        print(*lines, sep="\n", file=sys.stderr, flush=True)

    def _end(self) -> None:
        """Politely first, as a database has shared memory to give back."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + GRACE
            sent: set[Process] = set()
            while (left := self._others()) and time.monotonic() < deadline:
                for process in left - sent:
                    process.signal(number)
                sent |= left
                time.sleep(0.05)


def main(pytest_pid: str, token: str, most: str) -> None:
    """Watch one pytest, whatever signals its terminal or another guard sends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Watch(int(pytest_pid), token, int(most)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
