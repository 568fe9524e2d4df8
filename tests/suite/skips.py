"""Holds the skipped tests against a list: one that is not in it, or has another reason than there, fails the run.

    config.pluginmanager.register(Skips.read(Path("tests/skips.toml")))      # in conftest.py

Each entry of the list has `tests`, a pattern of node ids (as in fnmatch, in which [ stands for itself); `reason`, a
regular expression that the reason has to match as a whole; `why`; and either `most`, how many tests it may skip, or
`fixture`, by whose name each of them has to ask for what is missing, however many they are. So a test cannot stop being
run without a change of that file. A run of a part of the tests, or on a machine that lacks nothing, skips fewer.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Generator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Skip:
    """How a test was skipped. `fixtures`: the names of those that it asks for, by itself or through others."""

    reason: str
    fixtures: list[str]


@dataclass(frozen=True)
class Entry:
    """Tests that may be skipped. `why`: for whom reads the list."""

    tests: str
    reason: str
    why: str
    most: int | None = None
    fixture: str | None = None

    def __post_init__(self) -> None:
        if (self.most is None) == (self.fixture is None):
            raise ValueError(f"skips of {self.tests} need either `most` or `fixture`")

    def covers(self, nodeid: str, skip: Skip) -> bool:
        """Whether it is about this test, which is skipped so."""
        return (
            fnmatchcase(nodeid, self.tests.replace("[", "[[]"))
            and bool(re.fullmatch(self.reason, skip.reason, re.DOTALL))
            and (self.fixture is None or self.fixture in skip.fixtures)
        )


@dataclass(eq=False)  # plugins are hashed
class Skips:
    """A pytest plugin."""

    entries: list[Entry]
    file: str
    skipped: dict[str, Skip] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Skips:
        """The list of a file."""
        return cls([Entry(**entry) for entry in tomllib.loads(file.read_text(encoding="utf-8"))["skip"]], file.name)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A report names the fixtures of its test, as it goes to another process."""
        report = yield
        report.__dict__["fixtures"] = list(getattr(item, "fixturenames", []))
        return report

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
            covered = [nodeid for nodeid, skip in left.items() if entry.covers(nodeid, skip)]
            for nodeid in covered:
                del left[nodeid]
            if entry.most is not None and len(covered) > entry.most:
                found.append(
                    f"{entry.tests}: {len(covered)} skipped, and {self.file} allows {entry.most}: {entry.reason}"
                )
        return [*(f"{nodeid}: {skip.reason}" for nodeid, skip in left.items()), *found]

    def _add(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.skipped:
            reported = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped[report.nodeid] = Skip(reported.removeprefix("Skipped: "), getattr(report, "fixtures", []))
