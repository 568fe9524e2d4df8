"""The processes that a run of the tests started, found in /proc. Standard library only, and empty where there is none.

    family = Family(os.getpid(), "token")      # the token is in the environment of all that is to be found
    family.members()                           # set of Process, without the family's head

A process belongs to the family if it descends from the head, or from another member, or has the token in its
environment. So one that left its parent behind (a daemon, a new session, a parent that was killed) is still found, and
so is one that was given an environment of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Process(NamedTuple):
    """A process. The time of its start (in ticks since boot) tells it from a later one of the same number."""

    pid: int
    started: int

    def is_running(self) -> bool:
        """Whether it is still there and not a zombie."""
        found = _stat(self.pid)
        return found is not None and found.process == self and found.state not in "ZX"

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.is_running():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    def command(self) -> str:
        """Its command line, "" once it has ended."""
        return _read(self.pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()

    def resident(self) -> int:
        """Bytes in memory, shared ones included. Cheap: one line to read."""
        fields = _read(self.pid, "statm").split()
        return int(fields[1]) * _PAGE if len(fields) > 1 else 0

    def proportional(self) -> int:
        """Bytes in memory, each shared page divided by the processes that share it. The kernel walks the page tables
        for it: a tenth of a second for a large process.
        """
        lines = _read(self.pid, "smaps_rollup").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:")), self.resident())


class _Stat(NamedTuple):
    process: Process
    parent: int
    state: str
    seconds: float
    """On a CPU, with those of its children that have ended and that it has waited for."""


class Family:
    """All that descends from a process, or has its token."""

    def __init__(self, head: int, token: str) -> None:
        self._head, self._token = head, token.encode()
        self._belongs: dict[Process, bool] = {}

    def head(self) -> set[Process]:
        """The process that it begins with; empty once that has ended."""
        found = _stat(self._head)
        return set() if found is None else {found.process}

    def members(self) -> set[Process]:
        """Those that run now, without the head. Each is judged once, when it is first seen."""
        there = {found.process.pid: found for found in _all() if found.state not in "ZX"}
        for pid in there:
            self._judge(pid, there)
        return {found.process for pid, found in there.items() if self._belongs[found.process] and pid != self._head}

    def _judge(self, pid: int, there: dict[int, _Stat]) -> bool:
        if pid == self._head:
            self._belongs[there[pid].process] = True
            return True
        found = there.get(pid)
        if found is None:
            return False
        if found.process not in self._belongs:
            self._belongs[found.process] = self._token in _read(pid, "environ") or self._judge(found.parent, there)
        return self._belongs[found.process]


def seconds_below(head: int) -> float:
    """CPU seconds of a process and of all that descend from it."""
    there = list(_all())
    below, found = {head}, 0
    while found < len(below):
        found = len(below)
        below |= {one.process.pid for one in there if one.parent in below}
    return sum(one.seconds for one in there if one.process.pid in below)


def _all() -> Iterator[_Stat]:
    if not PROC.is_dir():
        return
    for name in os.listdir(PROC):  # noqa: PTH208 (twice a second)
        if name.isdigit() and (found := _stat(int(name))) is not None:
            yield found


def _stat(pid: int) -> _Stat | None:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    if len(fields) < 20:
        return None
    return _Stat(
        Process(pid, int(fields[19])), int(fields[1]), fields[0].decode(), sum(map(int, fields[11:15])) * _TICK
    )


def _read(pid: int, name: str) -> bytes:
    try:
        descriptor = os.open(f"{PROC}/{pid}/{name}", os.O_RDONLY)  # a third of the time of Path.read_bytes
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(descriptor, 1 << 16), b""))
    except OSError:
        return b""
    finally:
        os.close(descriptor)
