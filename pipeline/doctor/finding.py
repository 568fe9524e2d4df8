"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

REMAKE = "rm -f .venv/made && make env"
"""What puts the locked environment back."""


class Level(StrEnum):
    """How bad it is. Only a problem makes `headrace doctor` fail."""

    OK = "ok"
    NOTE = "note"  # worth knowing: optional, or slower than need be
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report. `mend` says what to do; empty where nothing is to be done."""

    level: Level
    what: str
    mend: str = ""


def ok(what: str) -> Finding:
    return Finding(Level.OK, what)


def note(what: str, mend: str = "") -> Finding:
    return Finding(Level.NOTE, what, mend)


def problem(what: str, mend: str) -> Finding:
    return Finding(Level.PROBLEM, what, mend)
