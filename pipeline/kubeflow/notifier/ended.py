"""What became of a run on Kubeflow, as an Event: its state from the API server, its results from the object store.

event = read_ended(session, run, store)

Kubeflow's launcher writes what a task outputs below `<pipeline root>/<pipeline>/<run>/<task>/<salt>/`. A result that
was taken from the cache is below another run; the URIs of the inputs of later tasks say where.

Nothing that a component wrote about an error becomes part of an event, as it may repeat values of the data: of Argo's
message about a pod, which ends with it, only the reason and the exit code do.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from headrace.common.errors import RunError
from headrace.components.canary.verdict import FILE_NAME as VERDICT
from headrace.components.canary.verdict import CanaryVerdict
from headrace.components.evaluation.result import FILE_NAME as EVALUATION
from headrace.components.lite.verdict import REPORT_FILE, LiteVerdict
from headrace.components.stored_models.blessed_record import AWAITING, MANUAL
from headrace.components.trigger.decision import WHY
from headrace.pipeline.kubeflow.document import component_of
from headrace.pipeline.kubeflow.pod.paths import RECORD
from headrace.pipeline.kubeflow.pod.records import BLESSINGS, PUSHES
from headrace.pipeline.kubeflow.pod.state import GRAPH
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.status import memory_kills, run_record
from headrace.pipeline.kubeflow.server.tasks import reported_inputs
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.notify.event import DRIFT, Event, Failure, read_event, timestamp
from headrace.pipeline.results.record import ArtifactRecord, NodeRecord, RunRecord, Status
from headrace.pipeline.results.run_folder import RunFolder
from headrace.pipeline.results.verdict import ModelVerdict, read_verdict

REASON = re.compile(
    r"OOMKilled|Evicted|DeadlineExceeded|ImagePullBackOff|ErrImagePull|InvalidImageName|CreateContainer\w*Error"
    r"|RunContainerError|NodeLost|Unschedulable|pod deleted|exit (?:code|status) \d+"
)
"""What an event repeats of a message about a pod: words of Kubernetes' and Argo's."""


class Output(NamedTuple):
    """An output of which one object is fetched. file: its name below the task's salt."""

    component: str
    key: str
    type: str
    file: str


JUDGEMENTS = (
    Output("Evaluator", "evaluation", "ModelEvaluation", f"evaluation/{EVALUATION}"),
    Output("Canary", "blessing", "InfraBlessing", f"blessing/{VERDICT}"),
    Output("Lite", "blessing", "InfraBlessing", f"blessing/{REPORT_FILE}"),
)
"""What the gates of a model wrote."""
OUTPUTS = (
    *JUDGEMENTS,
    Output(DRIFT, WHY, "String", RECORD),
    Output("DataVerdict", "verdict", "String", RECORD),
)
PUSHED = Output("Pusher", "pushed_model", "PushedModel", f"pushed_model/{GRAPH}")


def end_key(run: Any) -> str:
    """What identifies the end of a run, which ends again after `headrace retry`: its id and the time."""
    return key_at(run.run_id, run.finished_at)


def key_at(run_id: str, moment: dt.datetime) -> str:
    """The same for a run and a moment."""
    return f"{run_id}/{timestamp(moment.timestamp())}"


def home_of_run(session: Session, run: Any) -> str:
    """The URI of the pipeline's folder below the root that a run was started with."""
    given = run.runtime_config and run.runtime_config.pipeline_root
    return session.home(given or None)


def read_ended(session: Session, run: Any, store: Store) -> Event:
    """What became of a run that has ended, with its tasks. Raises ServerError, and OSError if the store fails."""
    tasks = session.tasks(run)
    record = run_record(run, tasks, session.pipeline)
    record.ended = _ended_early(record)
    results = _Results(session, run, store, tasks)
    with results.fetched(record, OUTPUTS) as folder:
        results.add_push(record)
        event = read_event(folder)
    return replace(
        event,
        source=session.home(),
        report=None,
        page=session.link(run),
        end=end_key(run),
        failed=tuple(_failures(session, run, record)),
    )


def read_judgement(session: Session, run: Any, record: RunRecord, store: Store) -> ModelVerdict:
    """The verdict of the gates on the model of a run, as far as the run got; what became of the push is not in it.

    record: the run's, to which the outputs of the gates are added. Raises ServerError, and OSError if the store fails.
    """
    with _Results(session, run, store, session.tasks(run)).fetched(record, JUDGEMENTS) as folder:
        return read_verdict(folder)


class _Results:
    """The results of a run in the object store. tasks: those of its graph, by name."""

    def __init__(self, session: Session, run: Any, store: Store, tasks: Mapping[str, Any]) -> None:
        self._session, self._run, self._store = session, run, store
        self._names = {component_of(task, name): name for name, task in tasks.items()}
        self._home = home_of_run(session, run)
        self._uris: frozenset[str] | None = None

    @contextlib.contextmanager
    def fetched(self, record: RunRecord, outputs: Iterable[Output]) -> Iterator[RunFolder]:
        """The run as a folder that has these outputs, as far as there are any."""
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            path = Path(folder, "pipeline", "runs", "run")
            for output in outputs:
                self.add(record, output, path)
            yield RunFolder(path, record)

    def add(self, record: RunRecord, output: Output, folder: Path) -> None:
        """Fetch an output into the folder, and add it to the record of its component, if the component succeeded."""
        node, uri = self._node(record, output), self._find(record, output)
        path = folder / output.component / output.file
        if node is None or uri is None or not self._store.get(uri, path):
            return
        uri_of_artifact = path if path.name == output.file else path.parent
        read = {"Canary": CanaryVerdict.read, "Lite": LiteVerdict.read}.get(output.component)
        verdict = read(path.parent) if read is not None else None
        properties: dict[str, str | int | float] = {} if verdict is None else {"blessed": int(verdict.passed)}
        node.outputs[output.key] = ArtifactRecord(output.type, str(uri_of_artifact), properties)

    def add_push(self, record: RunRecord) -> None:
        """Add what the Pusher of this run pushed, which it copies to its output, or that its model awaits approval.

        An output without a copy, which later tasks are given all the same, is that of a Pusher that pushed nothing.
        """
        node = self._node(record, PUSHED)
        if node is None:
            return
        uri = self._own(PUSHED) if node.status is Status.DONE else None
        if uri is not None:
            where = self._version() or uri.rpartition("/")[0]
            node.outputs[PUSHED.key] = ArtifactRecord(PUSHED.type, uri, {"pushed": 1, "pushed_destination": where})
        elif self._awaits_approval():
            node.outputs[PUSHED.key] = ArtifactRecord(PUSHED.type, self._home, {AWAITING: self._home})

    def _node(self, record: RunRecord, output: Output) -> NodeRecord | None:
        found = (node for node in record.nodes if node.id == output.component)
        return next((node for node in found if node.status in (Status.DONE, Status.CACHED)), None)

    def _find(self, record: RunRecord, output: Output) -> str | None:
        """The newest object of that name below the task, or else the one that a later task of the run was given."""
        if self._node(record, output) is None:
            return None
        if (own := self._own(output)) is not None:
            return own
        pattern = re.compile(rf".+/{re.escape(self._names[output.component])}/[^/]+(?=/)")
        salts = (match[0] for uri in self._inputs() if (match := pattern.match(uri)))
        return next((f"{salt}/{output.file}" for salt in sorted(salts)), None)

    def _own(self, output: Output) -> str | None:
        """The newest object of that name below the task."""
        folder = f"{self._home}/{self._run.run_id}/{self._names[output.component]}"
        found = {name: at for name, at in self._store.files(folder).items() if name.partition("/")[2] == output.file}
        return f"{folder}/{max(found, key=lambda name: found[name])}" if found else None

    def _inputs(self) -> frozenset[str]:
        """The URIs of the artifacts that the tasks of the run were given."""
        if self._uris is None:
            given = reported_inputs(self._session.server, self._run).values()
            groups = [group for one in given for group in one.get("inputs", {}).get("artifacts", {}).values()]
            self._uris = frozenset(str(one.get("uri", "")) for group in groups for one in group["artifacts"])
        return self._uris

    def _awaits_approval(self) -> bool:
        """Whether a model that this run trained, or took from the cache, waits for `headrace promote`."""
        deploy = self._session.config.deploy
        if deploy.push is None or deploy.approval != MANUAL:
            return False
        try:
            waiting = [entry.uri for entry in BLESSINGS.read(f"{self._home}/blessed.json", self._store).waiting]
        except RunError:  # damaged, which the next run reports
            return False
        own = f"{self._run.run_id}/"
        return any(uri.startswith(own) or f"{self._home}/{uri}" in self._inputs() for uri in waiting)

    def _version(self) -> str | None:
        """The folder of the version that was pushed: that of this run's model, or else the newest."""
        push = self._session.config.push_directory
        try:
            pushes = PUSHES.read(f"{self._home}/pushed.json", self._store)
        except RunError:  # damaged, which the next run reports
            return None
        models = pushes.models.get(str(Path(push)), {}) if push else {}
        versions = [(self._run.run_id in uri.split("/"), int(version)) for version, uri in models.items()]
        folder = push if push and Path(push).is_absolute() else f"{self._home}/{push}"
        return f"{folder}/{max(versions)[1]}" if versions else None


def _ended_early(record: RunRecord) -> str | None:
    if record.status is Status.DONE and any(node.status is Status.SKIPPED for node in record.nodes):
        return "there was no reason to train"
    return None


def _failures(session: Session, run: Any, record: RunRecord) -> Iterator[Failure]:
    if record.status is not Status.FAILED:
        return
    failed = [node for node in record.nodes if node.status is Status.FAILED]
    if not failed:
        yield Failure("the workflow", _reason(record.error), None)
    killed = memory_kills(session, run) if failed else {}
    for node in failed:
        error = killed.get(node.id) or _reason(node.error)
        yield Failure(node.id, error, f"headrace logs CONFIG {node.id} {shlex.quote(record.run_id)}")


def _reason(message: str | None) -> str:
    """The words of Kubernetes' and Argo's in a message, each once."""
    return ", ".join(dict.fromkeys(REASON.findall(message or ""))) or "an error"
