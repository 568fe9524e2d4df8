"""All the checks, in the order they are shown: what is quick first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.text import Text

from headrace.pipeline.doctor import imports, interpreter, machine, packages, tools
from headrace.pipeline.doctor.finding import Finding, Level
from headrace.pipeline.terminal import StandardOutput

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.PROBLEM: "bold red"}


def examine(root: Path) -> Iterator[Finding]:
    """Every finding, as it is made. `root` is the folder that runs are kept in; it need not exist yet."""
    yield from interpreter.python_version()
    yield from interpreter.legacy_keras(os.environ)
    yield from interpreter.bytecode()
    yield from machine.cpu()
    yield from machine.memory()
    yield from machine.disk(root)
    yield from machine.temporary_files()
    yield from tools.tools()
    yield from packages.versions()
    yield from packages.kubernetes_client()
    yield from imports.load()


def main(root: Path = Path("runs"), console: Console | None = None) -> int:
    """Print every finding. 0 if the environment is fit, 1 if something is broken."""
    console = console or StandardOutput()
    problems = 0
    for finding in examine(root):
        problems += finding.level is Level.PROBLEM
        console.print(_line(finding), soft_wrap=True)
    if problems:
        console.print(f"\n{problems} problem{'s' if problems > 1 else ''} to mend")
    return 1 if problems else 0


def _line(finding: Finding) -> Text:
    line = Text.assemble((f"{finding.level:<8}", _STYLES[finding.level]), finding.what)
    for step in finding.mend.splitlines():
        line.append(f"\n        → {step}", "dim" if finding.level is Level.NOTE else "")
    return line
