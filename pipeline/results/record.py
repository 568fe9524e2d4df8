"""The record of a run, during and after it: `runs/<run id>/run.json`.

The runner writes it, the terminal shows it, and the report is made from it. Times are Unix seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.common.durable import write_text

FILE_NAME = "run.json"


class Status(StrEnum):
    """The state of a component or a run."""

    WAITING = "waiting"
    RUNNING = "running"
    CACHED = "cached"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # a component upstream failed, or decided that there is nothing to do
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        return self not in (Status.WAITING, Status.RUNNING)


@dataclass
class ArtifactRecord:
    """One output. `properties` holds TFX's typed and custom properties together."""

    type: str
    uri: str
    properties: dict[str, str | int | float] = field(default_factory=dict)


@dataclass
class NodeRecord:
    """One component of the DAG in one run."""

    id: str
    upstream: list[str] = field(default_factory=list)
    status: Status = Status.WAITING
    started: float | None = None
    finished: float | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    log: str | None = None
    error: str | None = None
    error_class: str | None = None  # of the exception
    expected: bool = False  # the user can fix the error, and its message says how: no log is needed
    peak_bytes: int | None = None  # peak memory of its largest process
    cpus: float | None = None  # CPUs used on average
    beam: str = ""  # for a Beam component that ran: the runner, and what it executed
    damaged: list[str] = field(
        default_factory=list
    )  # messages about outputs that could not be reused because their files have changed
    outputs: dict[str, ArtifactRecord] = field(default_factory=dict)

    def seconds(self, now: float) -> float | None:
        """How long it ran, or has been running at `now`; None if it did not start."""
        if self.started is None:
            return None
        return (self.finished if self.finished is not None else now) - self.started


@dataclass
class RunRecord:
    """One run of a pipeline. `status` is running, done, failed or interrupted."""

    run_id: str
    pipeline: str
    config_file: str
    started: float
    finished: float | None = None
    status: Status = Status.RUNNING
    error: str | None = None
    ended: str | None = None  # why it ended early, as a success: there was nothing to train for
    commit: str | None = None  # the Git commit of the config's folder
    dirty: bool = False  # whether a tracked file there differed from it
    nodes: list[NodeRecord] = field(default_factory=list)

    def node(self, node_id: str) -> NodeRecord:
        """The record of one component. Raises KeyError if the run has no component of that name."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KeyError(node_id)

    def ran(self, node_id: str) -> bool:
        """Whether a component did its work in this run, and was not reused."""
        return any(node.id == node_id and node.status is Status.DONE for node in self.nodes)

    def write(self, run_dir: Path) -> None:
        """Write `run.json` atomically: a reader sees the old text or the new."""
        write_text(run_dir / FILE_NAME, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, run_dir: Path) -> RunRecord:
        """Read the record in a run's folder. Raises FileNotFoundError if there is none."""
        fields = json.loads((run_dir / FILE_NAME).read_text(encoding="utf-8"))
        fields["status"] = Status(fields["status"])
        fields["nodes"] = [_node(node) for node in fields["nodes"]]
        return cls(**fields)


def newest_first(runs: Path) -> list[Path]:
    """The folders of the runs in `runs`, by the time of their start; a damaged record counts as started when written.

    Names do not sort that way: they are local time, and runs of one second are numbered.
    """
    return sorted((file.parent for file in runs.glob(f"*/{FILE_NAME}")), key=_start, reverse=True)


def _start(run_dir: Path) -> tuple[float, str]:
    file = run_dir / FILE_NAME
    try:
        return float(json.loads(file.read_text(encoding="utf-8"))["started"]), run_dir.name
    except (OSError, ValueError, KeyError, TypeError):
        return file.stat().st_mtime, run_dir.name


def _node(fields: dict[str, Any]) -> NodeRecord:
    outputs = {key: ArtifactRecord(**value) for key, value in fields.pop("outputs").items()}
    return NodeRecord(status=Status(fields.pop("status")), outputs=outputs, **fields)


def spans_of(record: RunRecord) -> tuple[str, ...]:
    """The spans that ExampleGen read or reused, oldest first; empty for data without spans."""
    for node in record.nodes:
        if node.id == "ExampleGen" and node.status in (Status.DONE, Status.CACHED) and "examples" in node.outputs:
            return tuple(json.loads(str(node.outputs["examples"].properties.get("spans", "{}"))))
    return ()


@dataclass(frozen=True)
class Ingestion:
    """What ExampleGen reported about the data.

    skipped: how many of `records` were unreadable and left out; places: messages about the first of them; notes: lines
    about rows without a label, missing spans, columns that lose digits and, if this run read the data, files that have
    changed; plan: one line about the spans and shards.
    """

    skipped: int = 0
    records: int = 0
    places: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    plan: str = ""

    @property
    def skipped_share(self) -> float:
        """Fraction of all records that were skipped, from 0 to 1."""
        return self.skipped / self.records if self.records else 0.0


def ingested(record: RunRecord) -> Ingestion:
    """What ExampleGen reported in a run; empty if the run did not get that far."""
    for node in record.nodes:
        if node.id == "ExampleGen" and node.status in (Status.DONE, Status.CACHED) and "examples" in node.outputs:
            return _read_ingestion(node.outputs["examples"].properties, reused=node.status is Status.CACHED)
    return Ingestion()


def _read_ingestion(properties: Mapping[str, str | int | float], *, reused: bool) -> Ingestion:
    """Read the properties of Examples. Reused ones leave out what was true only of the run that wrote them."""
    skipped = json.loads(str(properties.get("skipped", "{}")))
    count = int(skipped.get("count", 0))
    rows = sum(json.loads(str(properties.get("rows", "{}"))).values())
    lists, lines = (("gaps", "rounded"), ("plan",)) if reused else (("gaps", "rounded", "notes"), ("plan", "read"))
    notes = [line for name in lists for line in json.loads(str(properties.get(name, "[]")))]
    plan = "; ".join(str(properties[name]) for name in lines if name in properties)
    notes = [*_dropped(int(properties.get("dropped", 0)), rows), *notes]
    places = tuple(map(on_one_line, skipped.get("reported", ())))
    return Ingestion(count, rows + count, places, tuple(map(on_one_line, notes)), on_one_line(plan))


def _dropped(count: int, rows: int) -> list[str]:
    """A line about the rows without a label, if any were dropped. rows: the number of the others."""
    if not count:
        return []
    share = f"{count:,} of {rows + count:,} rows ({count / (rows + count):.2%})"
    return [f"{share} have no label and were left out, as `label.missing: drop` says"]


def on_one_line(line: str) -> str:
    """Replace line breaks and terminal control characters, as file names and values come from the data."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
