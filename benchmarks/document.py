"""docs/benchmarks.md: the headlines, a section for each benchmark, and the machines that they were measured on.

page.write_text(updated(page.read_text(), Machine.here(), figures, sections))

What was measured replaces what the page said of it. The rest of the page stays: benchmarks that did not run, and the
sections that a person writes.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import headlines
from benchmarks.tables import Section, Table

PACKAGES = ("tfx", "tensorflow", "keras", "tensorflow-transform", "apache-beam", "pyarrow")
HEADLINES, MACHINES = "Headlines", "Machines"
BUSY = 1.0
"""Load average before the start from which a machine has other work."""


@dataclass(frozen=True)
class Machine:
    """The machine of the measurements."""

    processor: str
    cores: int
    memory_gb: float
    load: float
    """The system's load average over the minute before."""

    @classmethod
    def here(cls) -> Machine:
        """The machine that runs this, now."""
        models = [
            line
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ]
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        processor = models[0].partition(":")[2].strip() if models else platform.machine()
        return cls(processor, len(os.sched_getaffinity(0)), memory, os.getloadavg()[0])

    def __str__(self) -> str:
        """The description on the page."""
        versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
        return (
            f"{self.processor}, {self.cores} core{'s' * (self.cores > 1)}, {self.memory_gb:.0f} GB of memory; Python"
            f" {platform.python_version()}, {versions}"
        )


def updated(page: str, machine: Machine, figures: Mapping[str, Any], sections: Sequence[Section]) -> str:
    """The page with these results in place of the earlier ones; a section that it lacks comes before the machines."""
    start, *blocks = re.split(r"(?m)^(?=## )", page)
    parts = {block[3:].partition("\n")[0]: block for block in blocks}
    machines = parts.pop(MACHINES, f"## {MACHINES}\n\n")
    letter, machines = _letter(machines.rstrip("\n"), str(machine))
    name = f"{letter}, busy" if machine.load >= BUSY else letter
    parts[HEADLINES] = _headlines(parts.get(HEADLINES, ""), list(headlines.measured(figures, name)))
    for section in sections:
        parts[section.title] = f"{section.markdown()}\n- Machine {name}.\n\n"
    return "".join([start, parts.pop(HEADLINES), *parts.values(), machines, "\n"])


def _letter(machines: str, description: str) -> tuple[str, str]:
    """The letter of the machine of this description, and the list with it."""
    known = dict(re.findall(r"(?m)^- \*\*([A-Z])\*\*: (.*)\.$", machines))
    letter = next((letter for letter, words in known.items() if words == description), None)
    if letter:
        return letter, machines
    new = chr(ord(max(known, default="@")) + 1)
    return new, f"{machines}\n- **{new}**: {description}."


def _headlines(block: str, lines: Sequence[Sequence[str]]) -> str:
    """The table with these lines, in the order of the headlines, and the text after it."""
    found = {line[0]: line for line in (*_rows(block), *lines)}
    order = [headline.what for headline in headlines.HEADLINES]
    rows = [found[what] for what in (*order, *(what for what in found if what not in order)) if what in found]
    text = re.sub(r"(?m)^\|.*\n", "", block.partition("\n")[2]).strip("\n")
    table = Table(headlines.HEAD, rows).markdown()
    return "\n\n".join(part for part in (f"## {HEADLINES}", table, text) if part) + "\n\n"


def _rows(block: str) -> Iterator[list[str]]:
    """The cells of a Markdown table."""
    table = [line for line in block.splitlines() if line.startswith("|")]
    yield from ([cell.strip() for cell in line.strip("|").split("|")] for line in table[2:])
