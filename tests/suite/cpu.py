"""`pytest --cpu` says how many CPU seconds each file of tests took, with all that its tests started.

    config.pluginmanager.register(CpuSeconds())      # in conftest.py, which also calls `add_option`

CPU seconds hardly depend on what else runs on the machine, and with whole files in each process, they are what makes
the tests take long. A file's share is what its process and all below it have used between its first and its last test:
commands, servers, and the process that forks others, so that the first file of a process pays for its start. Missing is
what a process used whose parent ended first.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import pytest
from processes import seconds_below

OPTION = "--cpu"
KEY = "cpu_seconds"
"""Of what a worker of pytest-xdist tells the process that started it."""


def add_option(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(OPTION, action="store_true", help="show the CPU seconds of each file of tests")


class CpuSeconds:
    """A pytest plugin."""

    def __init__(self) -> None:
        self.spent: defaultdict[str, float] = defaultdict(float)
        self._file, self._before = "", 0.0

    def pytest_runtest_logstart(self, location: tuple[str, int | None, str]) -> None:
        """Begin with a file, where its first test does."""
        if location[0] != self._file:
            self._note(location[0])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """End the last file, and tell the process that started this one."""
        self._note("")
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[KEY] = dict(self.spent)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what a worker told; one that was killed told nothing."""
        for file, seconds in getattr(node, "workeroutput", {}).get(KEY, {}).items():
            self.spent[file] += seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the files, the most expensive first."""
        terminalreporter.section(f"{sum(self.spent.values()):.0f} CPU seconds")
        for file, seconds in sorted(self.spent.items(), key=lambda item: -item[1]):
            terminalreporter.line(f"{seconds:8.1f} {file}")

    def _note(self, file: str) -> None:
        now = seconds_below(os.getpid())
        if self._file:
            self.spent[self._file] += now - self._before
        self._file, self._before = file, now
