"""What is known of a run, while it goes on and afterwards: `runs/<run id>/run.json`.

The runner writes it, the terminal shows it, the report is made from it. Times are Unix seconds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.configs.durable import write_text

FILE_NAME = "run.json"


class Status(StrEnum):
    """Where a component or a run stands."""

    WAITING = "waiting"
    RUNNING = "running"
    CACHED = "cached"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"  # something it needed failed
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        return self not in (Status.WAITING, Status.RUNNING)


@dataclass
class ArtifactRecord:
    """One output: where it lies and what is said of it (`properties` holds TFX's typed and custom ones together)."""

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
    expected: bool = False  # the error is the user's to mend, and says how: no log is needed to understand it
    peak_bytes: int | None = None  # memory that its largest process held at most
    cpus: float | None = None  # that it used on average
    beam: str = ""  # of a Beam component that ran: the runner, and what it executed
    damaged: list[str] = field(default_factory=list)  # what could not be reused, as its files have changed
    outputs: dict[str, ArtifactRecord] = field(default_factory=dict)

    def seconds(self, now: float) -> float | None:
        """Seconds it ran, or has run until `now`."""
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
    ended: str | None = None  # why it ended early, as a success: there was nothing new
    nodes: list[NodeRecord] = field(default_factory=list)

    def node(self, node_id: str) -> NodeRecord:
        """The record of one component; KeyError if the run has none of that name."""
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise KeyError(node_id)

    def write(self, run_dir: Path) -> None:
        """Write `run.json` so that a reader sees the old text or the new, never a part."""
        write_text(run_dir / FILE_NAME, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, run_dir: Path) -> RunRecord:
        """The record in a run's folder; FileNotFoundError if there is none."""
        fields = json.loads((run_dir / FILE_NAME).read_text(encoding="utf-8"))
        fields["status"] = Status(fields["status"])
        fields["nodes"] = [_node(node) for node in fields["nodes"]]
        return cls(**fields)


def _node(fields: dict[str, Any]) -> NodeRecord:
    outputs = {key: ArtifactRecord(**value) for key, value in fields.pop("outputs").items()}
    return NodeRecord(status=Status(fields.pop("status")), outputs=outputs, **fields)
