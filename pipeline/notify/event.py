"""What became of a run, as facts that may leave the machine.

event = read_event(folder)
event.happened                       # ("blessed", "pushed")
event.cloud_event("blessed")         # a CloudEvents 1.0 event, as a mapping for JSON

An error's own text never becomes part of an event: it may repeat values of the data. Its class, the component and the
path of the log do.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from headrace.common.credentials import redact
from headrace.common.errors import ConfigError
from headrace.components.trigger.decision import WHY
from headrace.configs.schema.notify import RunEvent
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.serving import ServingOutcome
from headrace.pipeline.results.verdict import CANARY, ModelVerdict, read_verdict

SPEC_VERSION = "1.0"
"""Of CloudEvents (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md)."""
TYPE = "headrace.run.{}"
TEST = "headrace.test"
"""The type of a test message."""
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
REPORT = "report.html"
DRIFT = "Drift"
DRIFTED = " drifted: "
"""What the reason of the component Drift contains if the data drifted; it has other reasons to train."""
DISTANCES = ("gates.drift.", "gates.skew")
"""Gates whose limits are distances between data and data."""

Topic = RunEvent | Literal["succeeded"]
"""What a message is about. `succeeded` is a run of which there is nothing else to tell: receivers of metrics get it."""


@dataclass(frozen=True)
class Failure:
    """A component that failed. error: the class of the exception, or how its process ended; log: path of its log."""

    component: str
    error: str
    log: str | None


@dataclass(frozen=True)
class Found:
    """A gate for arriving data that found something.

    gate: its path in the config; failed, judged: of how many checks; stopped: whether it stopped the run.
    """

    gate: str
    failed: int
    judged: int
    stopped: bool


@dataclass(frozen=True)
class Limit:
    """A limit on a metric. passed: None if it needs a baseline and there is none."""

    metric: str
    value: float | None
    rule: str
    passed: bool | None


@dataclass(frozen=True)
class Event:
    """What became of one run. Times are Unix seconds; paths are absolute.

    run: its id, or the time of the attempt if it did not start (`ran` is False), or its name on Kubeflow; source: the
    folder of the pipeline as a URI; happened: what is true of it, the first of which a message is about; seconds: by
    component; examples: by split; gates: those that found something; reasons: why the model is not blessed, beside
    limits on metrics; pushed: the folder of the version; page: the URL of its page in Kubeflow's interface; end: what
    identifies this end of the run, if `run` does not, as a run on Kubeflow may be retried.
    """

    pipeline: str
    run: str
    source: str
    happened: tuple[RunEvent, ...]
    started: float
    finished: float
    ran: bool = True
    report: str | None = None
    failed: tuple[Failure, ...] = ()
    gates: tuple[Found, ...] = ()
    blessed: bool | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    reasons: tuple[str, ...] = ()
    pushed: str | None = None
    examples: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    page: str | None = None
    end: str | None = None

    def id_of(self, about: Topic) -> str:
        """The same each time that the same event is sent, so that a receiver can tell a repetition."""
        return f"{self.pipeline}/{self.end or self.run}/{about}"

    def cloud_event(self, about: Topic) -> dict[str, Any]:
        """The event in CloudEvents' JSON format. about: gives it its type."""
        data = {
            "pipeline": self.pipeline,
            "run": self.run,
            "events": list(self.happened),
            "started": timestamp(self.started),
            "finished": timestamp(self.finished),
            "seconds": round(self.finished - self.started, 3),
            "failed": [asdict(one) for one in self.failed],
            "gates": [asdict(one) for one in self.gates],
            "blessed": self.blessed,
            "metrics": self.metrics,
            "limits": [asdict(one) for one in self.limits],
            "reasons": list(self.reasons),
            "pushed": self.pushed,
            "examples": self.examples,
            "component_seconds": self.seconds,
            "report": self.report,
            "page": self.page,
        }
        return {
            "specversion": SPEC_VERSION,
            "id": self.id_of(about),
            "source": self.source,
            "type": TYPE.format(about),
            "subject": self.run,
            "time": timestamp(self.finished),
            "datacontenttype": "application/json",
            "data": data,
        }


def read_event(folder: RunFolder, *, killed: bool = False) -> Event:
    """What became of the run in a folder. killed: whether its command ended without a conclusion."""
    record, verdict = folder.record, _of_this_run(folder, read_verdict(folder))
    evaluation, report = folder.evaluation, folder.path.absolute() / REPORT
    return Event(
        pipeline=record.pipeline,
        run=record.run_id,
        source=source(folder.home),
        happened=tuple(_happened(folder, verdict, killed=killed)),
        started=record.started,
        finished=_finished(record),
        report=str(report) if not killed or report.exists() else None,
        failed=(*map(_failure, _failed(record)), *_not_served(folder)),
        gates=tuple(_found(folder)),
        blessed=verdict.blessed,
        metrics={name: _finite(value) for name, value in evaluation.metrics.items()} if evaluation else {},
        limits=tuple(Limit(one.metric, _finite(one.value), one.rule, one.passed) for one in verdict.bounds),
        reasons=tuple(_reasons(verdict)) if verdict.blessed is False else (),
        pushed=verdict.pushed,
        examples=_examples(folder),
        seconds={
            node.id: round(node.finished - node.started, 3) for node in record.nodes if node.started and node.finished
        },
    )


def _reasons(verdict: ModelVerdict) -> Iterator[str]:
    """Those beside the limits. What the canary says may quote an example, so it is left to the report."""
    yield from (redact(reason) for reason in verdict.other_reasons if not reason.startswith(CANARY))
    if verdict.canary is not None and verdict.canary.reasons:
        yield "the canary did not pass; the report says why"


def not_started(pipeline: str, home: Path, started: float, finished: float, error: BaseException) -> Event:
    """The event of a run that failed before its first component."""
    hint = "; `headrace validate` reports it" if isinstance(error, ConfigError) else ""
    failure = Failure("the start", f"{type(error).__name__}{hint}", None)
    return Event(
        pipeline, timestamp(started), source(home), ("failed",), started, finished, ran=False, failed=(failure,)
    )


def timestamp(seconds: float) -> str:
    """Unix seconds as RFC 3339 in UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def source(home: Path) -> str:
    """The folder of a pipeline as a URI, with the name of this machine."""
    return f"file://{socket.gethostname()}{quote(str(home))}"


def _of_this_run(folder: RunFolder, verdict: ModelVerdict) -> ModelVerdict:
    """The verdict without the push of an earlier run, whose result the Pusher reused."""
    return verdict if folder.record.ran("Pusher") else replace(verdict, pushed=None)


def _happened(folder: RunFolder, verdict: ModelVerdict, *, killed: bool) -> Iterator[RunEvent]:
    status = folder.record.status
    if killed:
        yield "killed"
    elif status is Status.FAILED or any(_not_served(folder)):
        yield "failed"
    elif status is Status.INTERRUPTED:
        yield "interrupted"
    if verdict.blessed is not None and folder.record.ended is None:
        yield "blessed" if verdict.blessed else "not_blessed"
    if verdict.awaiting is not None:
        yield "awaiting_approval"
    if verdict.pushed is not None:
        yield "pushed"
    if DRIFTED in (folder.text(DRIFT, WHY) or "") or any(one.gate.startswith(DISTANCES) for one in _found(folder)):
        yield "drifted"
    if folder.record.ended is not None:
        yield "ended_early"


def _found(folder: RunFolder) -> Iterator[Found]:
    """Without the columns and values that a gate names, which the report has."""
    for one in folder.gates.gates if folder.gates else ():
        if not one.passed:
            yield Found(one.gate, one.failed, one.judged, one.stops)


def _failed(record: RunRecord) -> list[NodeRecord]:
    """The components that failed; one that stands for the runner if none did, and the run failed."""
    nodes = [node for node in record.nodes if node.status is Status.FAILED]
    if record.status is Status.FAILED and not nodes:
        return [NodeRecord("the runner")]
    return nodes


def _failure(node: NodeRecord) -> Failure:
    """Without the text of the error, unless it is one of ours about a process that left no result."""
    known = node.error if node.error_class is None and (node.error or "").startswith("its process ") else None
    return Failure(node.id, node.error_class or redact(known or "an error"), node.log)


def _not_served(folder: RunFolder) -> Iterator[Failure]:
    """What became of the server of `deploy.serving`, if it has not loaded the version in service."""
    outcome = ServingOutcome.read(folder.path)
    if outcome is not None and outcome.error is not None:
        back = "" if outcome.restored is None else f"; version {outcome.restored} is in service instead"
        what = "rejected" if outcome.rejected else "is not known to have loaded"
        yield Failure("TensorFlow Serving", f"it {what} version {outcome.version}{back}", None)


def _finished(record: RunRecord) -> float:
    """When it ended; for a killed run, the last moment that it recorded."""
    moments = [moment for node in record.nodes for moment in (node.started, node.finished) if moment is not None]
    return record.finished if record.finished is not None else max([record.started, *moments])


def _finite(value: float | None) -> float | None:
    """JSON has no other numbers."""
    return value if value is not None and math.isfinite(value) else None


def _examples(folder: RunFolder) -> dict[str, int]:
    artifact = folder.output("ExampleGen", "examples")
    found: dict[str, int] = json.loads(str(artifact.properties.get("rows", "{}"))) if artifact else {}
    return found


def first_of(happened: Sequence[RunEvent], wanted: Sequence[RunEvent]) -> RunEvent | None:
    """What a message to a receiver is about; None if it wants none of it."""
    return next((one for one in happened if one in wanted), None)
