"""Holds the skipped tests against a list: one that is not in it, or has another reason than there, fails the run.

    config.pluginmanager.register(Skips.read(Path("tests/skips.toml")))      # in conftest.py

Each entry of the list has `tests`, a pattern of node ids (as in fnmatch, in which [ stands for itself); `reason`, a
regular expression that the reason has to match as a whole; `most`, how many tests it may skip; and `why`. So a test
cannot stop being run without a change of that file. A run of a part of the tests, or on a machine that lacks nothing,
skips fewer.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Entry:
    """Tests that may be skipped. `why`: for whom reads the list."""

    tests: str
    reason: str
    most: int
    why: str

    def covers(self, nodeid: str, reason: str) -> bool:
        """Whether it is about this test and this reason."""
        return fnmatchcase(nodeid, self.tests.replace("[", "[[]")) and bool(
            re.fullmatch(self.reason, reason, re.DOTALL)
        )


@dataclass(eq=False)  # plugins are hashed
class Skips:
    """A pytest plugin."""

    entries: list[Entry]
    file: str
    skipped: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Skips:
        """The list of a file."""
        return cls([Entry(**entry) for entry in tomllib.loads(file.read_text(encoding="utf-8"))["skip"]], file.name)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A whole file that is skipped counts as one."""
        self._add(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that is skipped, by a mark, by a fixture or by itself."""
        if not hasattr(report, "wasxfail"):
            self._add(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail where nothing else did. Workers of one run leave it to the process that started them."""
        if self.faults() and session.exitstatus == pytest.ExitCode.OK and not hasattr(session.config, "workerinput"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which."""
        if faults := self.faults():
            terminalreporter.section("skips that are not listed", red=True, bold=True)
            for fault in faults:
                terminalreporter.line(fault)
            terminalreporter.line(f"Have them run; or, if they cannot here, list them in {self.file} with the reason.")

    def faults(self) -> list[str]:
        """What goes beyond the list, in lines."""
        left = dict(self.skipped)
        found = []
        for entry in self.entries:
            covered = [nodeid for nodeid, reason in left.items() if entry.covers(nodeid, reason)]
            for nodeid in covered:
                del left[nodeid]
            if len(covered) > entry.most:
                found.append(
                    f"{entry.tests}: {len(covered)} skipped, and {self.file} allows {entry.most}: {entry.reason}"
                )
        return [*(f"{nodeid}: {reason}" for nodeid, reason in left.items()), *found]

    def _add(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.skipped:
            reported = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped[report.nodeid] = reported.removeprefix("Skipped: ")
