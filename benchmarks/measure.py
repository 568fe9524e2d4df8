"""What all benchmarks share: fresh processes and what they use, runs in turn, medians.

used = run_process([sys.executable, "-m", "pipeline", ...], cwd=folder, log=folder / "log")
found = in_turn({"ours": 3, "stock": 3}, measure)     # ours, stock, stock, ours, ours, stock
medians(found["ours"])["wall_seconds"]
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pipeline.environment import SETTINGS

PROJECT = Path(__file__).resolve().parents[1]
SAMPLE_SECONDS = 1.0
"""How often the memory of a tree of processes is looked at; a look takes some milliseconds of a processor."""

Figures = dict[str, float]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Used:
    """What a process and all its descendants used. `started` and `ended` are Unix seconds."""

    started: float
    ended: float
    cpu_seconds: float
    """User and system time, descendants that were waited for included."""
    peak_mb: float
    """The most memory that the tree held at once (proportional set size: shared pages count once), sampled."""

    @property
    def wall_seconds(self) -> float:
        return self.ended - self.started

    def figures(self) -> Figures:
        """The three figures by name."""
        return {"wall_seconds": self.wall_seconds, "cpu_seconds": self.cpu_seconds, "peak_mb": self.peak_mb}


def environment() -> dict[str, str]:
    """That of every measured process: the settings that `pipeline.environment` makes, for all alike."""
    return {**os.environ, **SETTINGS, "PYTHONPATH": str(PROJECT)}


def run_process(command: Sequence[str], cwd: Path, log: Path) -> Used:
    """Run a command from start to exit, its output in `log`; ends the benchmark if it fails."""
    with log.open("wb") as stream:
        started = time.time()
        process = subprocess.Popen(command, cwd=cwd, env=environment(), stdout=stream, stderr=stream)
        memory = _MemoryWatch(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        ended = time.time()
    process.returncode = os.waitstatus_to_exitcode(status)  # wait4 took it from Popen
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{log.read_text(errors='replace')[-3000:]}")
    return Used(started, ended, usage.ru_utime + usage.ru_stime, memory.stop())


def json_of(module: str, *arguments: str) -> Any:
    """The last line that `python -m MODULE ARGUMENTS` prints, which is JSON; ends the benchmark if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def in_turn(repeats: Mapping[str, int], measure: Callable[[str], Found]) -> dict[str, list[Found]]:
    """Measure every engine as often as it says, one after another, each round in the opposite order of the last."""
    found: dict[str, list[Found]] = {engine: [] for engine in repeats}
    for turn in range(max(repeats.values())):
        engines = [engine for engine, count in repeats.items() if turn < count]
        for engine in engines[:: -1 if turn % 2 else 1]:
            found[engine].append(measure(engine))
    return found


def medians(found: Sequence[Mapping[str, float]]) -> Figures:
    """The median of each figure; of one that some lack, over those that have it."""
    names = dict.fromkeys(name for one in found for name in one)
    return {name: statistics.median(one[name] for one in found if name in one) for name in names}


def processor_seconds() -> float:
    """Of this process, and of the ones it started that have ended, until now."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def own_peak(held: float) -> float:
    """The most memory that this process held, and beyond the `held` that it shares with a fork the largest of those
    that have ended, in MB.
    """
    forked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    return own_memory("VmHWM") + max(0.0, forked - held)


def own_memory(field: str) -> float:
    """A field of /proc/self/status (VmRSS, VmHWM), in MB."""
    return _kilobytes(Path("/proc/self/status"), field) / 1e3


def reset_own_peak() -> None:
    """Let VmHWM start again from what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


class _MemoryWatch:
    """Looks at the memory of a process and its descendants until stopped."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak = pid, 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """The most that was seen, in MB."""
        self._done.set()
        self._thread.join()
        return self._peak / 1e3

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self._peak = max(self._peak, sum(map(_held, _tree(self._pid))))


def _tree(pid: int) -> list[int]:
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has just ended
        return []
    return [pid, *(below for text in texts for child in text.split() for below in _tree(int(child)))]


def _held(pid: int) -> int:
    try:
        return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss")
    except (OSError, StopIteration):  # it has just ended
        return 0


def _kilobytes(path: Path, field: str) -> int:
    lines = path.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
