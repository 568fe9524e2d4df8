"""docs/benchmarks.md: the tables, and the machine and versions that they were measured with."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.tables import Section

PACKAGES = ("tfx", "tensorflow", "keras", "tensorflow-transform", "apache-beam", "pyarrow")


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
            f"Machine: {self.processor}, {self.cores} core{'s' * (self.cores > 1)}, {self.memory_gb:.0f} GB of memory,"
            f" load {self.load:.1f} before the start. Python {platform.python_version()}, {versions}."
        )


def document(machine: Machine, sections: Sequence[Section]) -> str:
    """The page as Markdown."""
    intro = (
        "Headrace compared with stock TFX, on the Chicago taxi data (15,002 rows) that ships with TFX. Written by"
        " `python -m benchmarks --write docs/benchmarks.md`; `make bench` prints the same tables."
    )
    how = (
        "Every figure is the median over fresh processes that ran alternately, engine by engine, each round in the"
        " opposite order of the previous one. CPU seconds are user and system time of a process and its descendants."
        " Absolute figures depend on the machine; ratios much less."
    )
    return "\n\n".join(["# Benchmarks", intro, str(machine), how, *(section.markdown() for section in sections)]) + "\n"
