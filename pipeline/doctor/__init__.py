"""`headrace doctor`: finds what is wrong with this environment, and says how to fix it.

Each check is a function that yields results. Libraries are imported in another process, so that one that crashes the
interpreter is reported too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from headrace.pipeline.doctor import environment, imports, machine
from headrace.pipeline.doctor.result import CheckResult, Level
from headrace.pipeline.terminal import StandardOutput

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.PROBLEM: "bold red"}


def examine(root: Path) -> Iterator[CheckResult]:
    """Run all checks, the quick ones first. `root` is the folder for runs; it need not exist yet."""
    yield from environment.python_version()
    yield from environment.legacy_keras(os.environ)
    yield from environment.bytecode()
    yield from machine.cpu()
    yield from machine.memory()
    yield from machine.disk(root)
    yield from machine.temporary_files()
    yield from environment.tools()
    yield from environment.versions()
    yield from environment.kubernetes_client()
    yield from imports.load()


def main(root: Path = Path("runs"), console: Console | None = None) -> int:
    """Print the results. Returns the exit code: 0, or 1 if there is a problem."""
    console = console or StandardOutput()
    problems = 0
    for result in examine(root):
        problems += result.level is Level.PROBLEM
        console.print(_line(result), soft_wrap=True)
    if problems:
        console.print(f"\n{problems} problem{'s' if problems > 1 else ''} to fix")
    return 1 if problems else 0


def _line(result: CheckResult) -> Text:
    line = Text.assemble((f"{result.level:<8}", _STYLES[result.level]), result.what)
    for step in result.fix.splitlines():
        line.append(f"\n        → {step}", "dim" if result.level is Level.NOTE else "")
    return line
