"""What all benchmarks share: fresh processes and their usage, alternating runs, medians, the command line.

used = run_process([sys.executable, "-m", "headrace", ...], cwd=folder, log=folder / "log")
found = in_turn({"ours": 3, "stock": 3}, measure)     # ours, stock, stock, ours, ours, stock
medians(found["ours"])["wall_seconds"]
command(__doc__, lambda _: measure_all(REPEATS), section, child=measure_here)     # what `main` does
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.common.environment import SETTINGS

if TYPE_CHECKING:
    from benchmarks.tables import Section

PROJECT = Path(__file__).resolve().parents[1]
SAMPLE_SECONDS = 1.0
"""The interval between two samples of a process tree's memory; a sample takes some milliseconds of a processor."""
LOOKS = 5
"""How often within that interval `run_process` calls `look`."""

Figures = dict[str, float]
Found = TypeVar("Found")


@dataclass(frozen=True)
class Used:
    """What a process and its descendants used. `started` and `ended` are Unix seconds."""

    started: float
    ended: float
    cpu_seconds: float
    """User and system time, including descendants that were waited for."""
    peak_mb: float
    """The peak memory of the tree (proportional set size: shared pages count once), sampled."""

    @property
    def wall_seconds(self) -> float:
        return self.ended - self.started

    def figures(self) -> Figures:
        """The three figures by name."""
        return {"wall_seconds": self.wall_seconds, "cpu_seconds": self.cpu_seconds, "peak_mb": self.peak_mb}


def environment() -> dict[str, str]:
    """The environment of every measured process, with the settings of `headrace.common.environment`."""
    return {**os.environ, **SETTINGS, "PYTHONPATH": str(PROJECT)}


def run_process(
    command: Sequence[str], cwd: Path, log: Path, look: Callable[[Sequence[int]], None] | None = None
) -> Used:
    """Run a command with its output in `log`. Ends the benchmark if it fails.

    look: called again and again with the numbers of the process and its descendants, some of which may have ended.
    """
    with log.open("wb") as stream:
        started = time.time()
        process = subprocess.Popen(command, cwd=cwd, env=environment(), stdout=stream, stderr=stream)
        memory = _MemoryWatch(process.pid, look)
        _, status, usage = os.wait4(process.pid, 0)
        ended = time.time()
    process.returncode = os.waitstatus_to_exitcode(status)  # wait4 took it from Popen
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{log.read_text(encoding='utf-8', errors='replace')[-3000:]}")
    return Used(started, ended, usage.ru_utime + usage.ru_stime, memory.stop())


def in_child(benchmark: str, *arguments: str) -> Figures:
    """The figures of a part of a benchmark, measured in a fresh process. Ends the benchmark if it fails."""
    found: Figures = json_of(f"benchmarks.{benchmark}", "--child", *arguments)
    return found


def engine_in_child(benchmark: str, *arguments: str) -> Callable[[str], Figures]:
    """A function for `in_turn` that measures an engine in a fresh process, with an empty folder for what it writes.

    The child gets the engine, the arguments, and the folder, which is then removed.
    """

    def measured(engine: str) -> Figures:
        with tempfile.TemporaryDirectory() as out:
            return in_child(benchmark, engine, *arguments, out)

    return measured


def json_of(module: str, *arguments: str) -> Any:
    """Parse the last line that `python -m MODULE ARGUMENTS` prints as JSON. Ends the benchmark if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, encoding="utf-8")
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def in_turn(repeats: Mapping[str, int], measure: Callable[[str], Found]) -> dict[str, list[Found]]:
    """Measure every engine the given number of times, alternately, each round in the opposite order of the previous."""
    found: dict[str, list[Found]] = {engine: [] for engine in repeats}
    for turn in range(max(repeats.values())):
        engines = [engine for engine, count in repeats.items() if turn < count]
        for engine in engines[:: -1 if turn % 2 else 1]:
            found[engine].append(measure(engine))
    return found


def medians(found: Sequence[Mapping[str, float]]) -> Figures:
    """The median of each figure, over the measurements that have it."""
    names = dict.fromkeys(name for one in found for name in one)
    return {name: statistics.median(one[name] for one in found if name in one) for name in names}


def throughput(rows: int, found: Sequence[Mapping[str, float]]) -> Figures:
    """The medians of an engine that processed `rows` rows, with the rows per CPU second."""
    figures = medians(found)
    return {"rows": rows, "rows_per_cpu_second": rows / figures["cpu_seconds"], **figures}


THROUGHPUT = ("rows", "rows/CPU s", "CPU s", "wall s", "peak MB")
"""The columns of `throughput_cells`."""


def throughput_cells(row: Mapping[str, Any]) -> list[str]:
    """The figures of `throughput` as cells of a table."""
    rows, rate = (f"{row[name]:,.0f}" for name in ("rows", "rows_per_cpu_second"))
    return [rows, rate, f"{row['cpu_seconds']:.2f}", f"{row['wall_seconds']:.2f}", f"{row['peak_mb']:,.0f}"]


def by_stock(rows: Sequence[Mapping[str, Any]], digits: int = 0) -> str:
    """A note on how many times as fast as stock ours is."""
    return f"Rows per CPU second, Headrace by stock: {stock_ratio(rows):.{digits}f}."


def stock_ratio(rows: Sequence[Mapping[str, Any]]) -> float:
    """Rows per CPU second, ours divided by stock's."""
    speeds = {row["engine"]: float(row["rows_per_cpu_second"]) for row in rows}
    return speeds["ours"] / speeds["stock"]


def command(
    description: str | None,
    measured: Callable[[argparse.Namespace], Found],
    section: Callable[[Found], Section],
    *,
    child: Callable[..., object] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Measure and print a table, or with --json the figures.

    `child` turns the arguments of --child, which `json_of` passes to a separate process, into the figures to print.
    `options` are further options with their arguments for `add_argument`.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the figures as JSON instead of a table")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    for name, option in (options or {}).items():
        parser.add_argument(name, **option)
    given = parser.parse_args()
    if child and given.child:
        print(json.dumps(child(*given.child)))
        return
    found = measured(given)
    print(json.dumps(found, indent=1) if given.json else section(found).text())


def processor_seconds() -> float:
    """CPU seconds of this process so far, including its children that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in used)


def tree_seconds(pid: int) -> float:
    """CPU seconds so far of a process, its descendants, and those of theirs that have ended."""
    ticks = 0
    for each in _tree(pid):
        with contextlib.suppress(OSError):  # it has just ended
            after_name = Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += sum(map(int, after_name[11:15]))  # utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


def own_peak(held: float) -> float:
    """The peak memory of this process in MB, plus what its largest ended fork had beyond the shared `held`."""
    forked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    return own_memory("VmHWM") + max(0.0, forked - held)


def own_memory(field: str) -> float:
    """A field of /proc/self/status (VmRSS, VmHWM), in MB."""
    return memory_of("self", field)


def memory_of(pid: int | str, field: str) -> float:
    """The same of another process."""
    return _kilobytes(Path(f"/proc/{pid}/status"), field) / 1e3


def reset_own_peak() -> None:
    """Reset VmHWM to the current memory."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


class _MemoryWatch:
    """Samples the memory of a process and its descendants until stopped."""

    def __init__(self, pid: int, look: Callable[[Sequence[int]], None] | None) -> None:
        self._pid, self._peak, self._look = pid, 0, look
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Stop, and return the largest sample in MB."""
        self._done.set()
        self._thread.join()
        return self._peak / 1e3

    def _watch(self) -> None:
        for number in itertools.count():
            if self._done.wait(SAMPLE_SECONDS / LOOKS):
                return
            processes = _tree(self._pid)
            if self._look:
                self._look(processes)
            if number % LOOKS == LOOKS - 1:
                self._peak = max(self._peak, sum(map(_held, processes)))


def _tree(pid: int) -> list[int]:
    try:
        texts = [path.read_text(encoding="utf-8") for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has just ended
        return []
    return [pid, *(below for text in texts for child in text.split() for below in _tree(int(child)))]


def _held(pid: int) -> int:
    try:
        return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss")
    except (OSError, StopIteration):  # it has just ended
        return 0


def _kilobytes(path: Path, field: str) -> int:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
