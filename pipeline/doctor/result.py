"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REMAKE = "rm -f .venv/made && make env"
"""The command that restores the locked environment."""


class Level(StrEnum):
    """The severity. Only a problem makes `headrace doctor` fail."""

    OK = "ok"
    NOTE = "note"  # something optional is missing, or something is slower than necessary
    PROBLEM = "problem"


@dataclass(frozen=True)
class CheckResult:
    """One line of the doctor's output. `fix` is what to do, one step per line; empty if there is nothing to do."""

    level: Level
    what: str
    fix: str = ""


def ok(what: str) -> CheckResult:
    return CheckResult(Level.OK, what)


def note(what: str, fix: str = "") -> CheckResult:
    return CheckResult(Level.NOTE, what, fix)


def problem(what: str, fix: str) -> CheckResult:
    return CheckResult(Level.PROBLEM, what, fix)
