"""When each component of a run started and ended, from a run record of ours or from TFX's metadata."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from benchmarks.measure import Used
from headrace.pipeline.results.record import RunRecord

START, END = "start, imports", "report, exit"
NAMES = {"CsvExampleGen": "ExampleGen", "Resolver": "Baseline"}
"""TFX's names for what ours call otherwise."""
FAILED = 4
"""ml_metadata.proto.Execution.FAILED."""

Spans = dict[str, tuple[float, float]]
"""Name of a component to the Unix seconds when it started and ended."""


def from_record(home: Path) -> Spans:
    """Of the latest run of ours; `home` is <pipeline.root>/<pipeline.name>."""
    nodes = RunRecord.read(max((home / "runs").iterdir())).nodes
    return {node.id: (node.started or 0.0, node.finished or 0.0) for node in nodes}


def from_metadata(database: Path, since: float) -> Spans:
    """Of a run under TFX's runner; ends the benchmark if a component failed."""
    query = """select Type.name, last_known_state, create_time_since_epoch / 1e3, last_update_time_since_epoch / 1e3
               from Execution join Type on Type.id = Execution.type_id where create_time_since_epoch >= ?"""
    with sqlite3.connect(database) as connection:
        rows = connection.execute(query, (since * 1e3,)).fetchall()
    failed = [name for name, state, *_ in rows if state == FAILED]
    if failed:
        raise SystemExit(f"{database}: failed under TFX's runner: {', '.join(failed)}")
    short = {name: name.rpartition(".")[2] for name, *_ in rows}
    return {NAMES.get(short[name], short[name]): (start, end) for name, _, start, end in rows}


def seconds(used: Used, spans: Spans) -> dict[str, float]:
    """Seconds of each component, of what comes before the first and of what comes after the last."""
    return {
        START: min(start for start, _ in spans.values()) - used.started,
        **{name: end - start for name, (start, end) in spans.items()},
        END: used.ended - max(end for _, end in spans.values()),
    }
