"""What Beam runs on: the four Beam components of taxi in this machine's process, in processes of Beam's, and on Flink.

    python -m benchmarks.beam_runners                          a table; a quarter of an hour on two idle cores
    python -m benchmarks.beam_runners --json > figures.json    the same figures as JSON, for benchmarks.night_cost

Every run is `headrace run configs/taxi.yaml` in a fresh process and an empty folder, on one CSV file of copies of the
taxi data with other numbers in each. Flink runs on this machine too: its job and task managers are one process, and
Python workers are a process for each slot, so more of them than cores gain nothing. Without Java or Maven, Flink is
left out, and the reason is printed.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import components, ingest, measure
from benchmarks.flink import JobServer, MissingError, WorkerPool, beam_section, jars, job_server, worker_pool
from benchmarks.tables import Section, Table
from headrace.pipeline.results.record import RunRecord

CONFIG = measure.PROJECT / "configs" / "taxi.yaml"
SETTINGS = ("train.epochs=1", "train.batch_size=4096", "train.early_stopping=null", "deploy.canary=null")
COMPONENTS = ("ExampleGen", "StatisticsGen", "Transform", "Evaluator")
HERE = {
    "one thread": "{runner: auto}",
    "two threads": "{runner: auto, workers: 2}",
    "DirectRunner": "{runner: direct}",
    "DirectRunner, two processes": "{runner: direct, workers: 2, direct_running_mode: multi_processing}",
}
FLINK = {"Flink, one worker": 1, "Flink, two workers": 2, "Flink, four workers": 4}
SMALL, LARGE = 16, 240
"""Copies of the taxi data: 33 and 510 MB."""
QUICK = {"one thread": (SMALL,), "Flink, one worker": (SMALL,)}
FULL = dict.fromkeys((*HERE, *FLINK), (LARGE,)) | {
    "DirectRunner, two processes": (SMALL,),
    "Flink, one worker": (SMALL, LARGE),
}
"""The sizes of each engine. Processes of Beam's start anew for each of the eight pipelines, whatever the size."""

Row = dict[str, Any]
"""`engine`, `megabytes` of CSV, `rows`, and for each of `components` its seconds and CPU seconds."""
Servers = tuple[JobServer, WorkerPool]


def measure_all(sizes: Mapping[str, Sequence[int]]) -> list[Row]:
    """A row for each engine and size."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        csv = Path(name, "taxi.csv")
        servers = _servers(stack, Path(name)) if set(sizes) & set(FLINK) else None
        if servers is not None:  # Java loads and compiles its classes in the first jobs, which a cluster has behind it
            ingest.write_taxi(csv, SMALL)
            _on_flink(csv, servers, 1)
        for copies in sorted({copies for own in sizes.values() for copies in own}):
            rows = ingest.write_taxi(csv, copies)
            about = {"megabytes": csv.stat().st_size / 1e6, "rows": rows}
            for engine in (engine for engine, own in sizes.items() if copies in own):
                if engine in HERE:
                    found.append({"engine": engine, **about, **_run(csv, HERE[engine], ())})
                elif servers is not None:
                    found.append({"engine": engine, **about, **_on_flink(csv, servers, FLINK[engine])})
    return found


def _servers(stack: contextlib.ExitStack, folder: Path) -> Servers | None:
    """Flink and its workers, until the stack ends; None, with the reason printed, if they cannot be had."""
    own = {name: folder / name for name in ("jars", "jobs", "pool")}
    for one in own.values():
        one.mkdir()
    try:
        parts = jars(own["jars"])
    except MissingError as reason:
        print(f"without Flink: {reason}", file=sys.stderr)
        return None
    return stack.enter_context(job_server(parts, own["jobs"])), stack.enter_context(worker_pool(own["pool"]))


def _on_flink(csv: Path, servers: Servers, workers: int) -> Row:
    section = beam_section(*servers, workers).model_dump_json()
    return _run(csv, section, [server.pid for server in servers])


def _run(csv: Path, beam: str, servers: Sequence[int]) -> Row:
    """Run the pipeline in an empty folder. servers: the processes that do the work of Beam's for it."""
    settings = (*SETTINGS, f"data.source={{kind: csv, path: {csv}}}", f"beam={beam}")
    options = [part for one in settings for part in ("--set", one)]
    with tempfile.TemporaryDirectory() as name:
        folder, cluster = Path(name), _Processor(servers)
        command = [sys.executable, "-m", "headrace", "run", str(CONFIG), *options]
        measure.run_process(command, folder, folder / "log", lambda _: cluster.look())
        cluster.look()
        (run,) = (folder / "runs" / "chicago-taxi" / "runs").iterdir()
        record, spans = RunRecord.read(run), components.from_record(folder / "runs" / "chicago-taxi")
    cpus = {node.id: node.cpus or 0.0 for node in record.nodes}
    found = {
        name: {
            "wall_seconds": end - start,
            "own_cpu_seconds": cpus[name] * (end - start),
            "cluster_cpu_seconds": cluster.until(end) - cluster.until(start),
        }
        for name, (start, end) in spans.items()
    }
    return {"components": found}


class _Processor:
    """What processes and their descendants have used of the processors, over time."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._before = self._used()
        self._samples = [(time.time(), 0.0)]

    def look(self) -> None:
        """Take a sample."""
        self._samples.append((time.time(), self._used() - self._before))

    def until(self, moment: float) -> float:
        """CPU seconds up to a moment, in Unix seconds: those of the last sample before it."""
        return max((used for taken, used in self._samples if taken <= moment), default=0.0)

    def _used(self) -> float:
        return sum(map(measure.tree_seconds, self._pids))


def section(rows: Sequence[Row]) -> Section:
    """The table and notes."""
    head = ["", "MB of CSV", *(f"{name}, s" for name in COMPONENTS), "these, CPU s", "of it in Flink and its workers"]
    cells = []
    for row in rows:
        own = [row["components"][name] for name in COMPONENTS]
        cluster = sum(one["cluster_cpu_seconds"] for one in own)
        total = cluster + sum(one["own_cpu_seconds"] for one in own)
        walls = [f"{one['wall_seconds']:.1f}" for one in own]
        cells.append([row["engine"], f"{row['megabytes']:.0f}", *walls, f"{total:.1f}", f"{cluster:.1f}"])
    notes = (
        "The components of `headrace run configs/taxi.yaml` on one CSV file of copies of the taxi data; imports are"
        " included. Threads and processes without Beam (`runner: auto`), Beam's DirectRunner, and Flink 1.19 on the"
        " same machine, whose workers are processes.",
        *_serial(rows),
    )
    return Section("Runners of Beam", [("The four components that run on Beam", Table(head, cells))], notes)


def _serial(rows: Sequence[Row]) -> Iterator[str]:
    """How much of the processor time on Flink is in the component's own process, which more workers do not shorten."""
    on_flink = [row for row in rows if row["engine"] in FLINK]
    if not on_flink:
        return
    largest = max(on_flink, key=lambda row: (row["megabytes"], -FLINK[row["engine"]]))
    parts = []
    for name in COMPONENTS:
        one = largest["components"][name]
        parts.append(
            f"{name} {one['own_cpu_seconds']:.1f} of {one['own_cpu_seconds'] + one['cluster_cpu_seconds']:.1f}"
        )
    yield (
        f"CPU seconds in the component's own process, which more workers do not shorten, of all ({largest['engine']},"
        f" {largest['megabytes']:.0f} MB): {', '.join(parts)}."
    )


def main() -> None:
    """Measure and print."""
    measure.command(__doc__, lambda _: measure_all(FULL), section)


if __name__ == "__main__":
    main()
