"""How a run on the server stands: as the record that the terminal shows, once or until it ends, and what was killed.

A server with ML Metadata reports the nodes of Argo's workflow, without their relation. A task of ours is a node of the
task's name; if its result came from the cache, an `executor` node was skipped in the same second. A server without ML
Metadata reports the tasks themselves, and which of them were cached.
"""

from __future__ import annotations

import datetime as dt
import graphlib
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.common.errors import ServerError
from headrace.pipeline.kubeflow.document import component_of, container_of
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.errors import is_unclear
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.tasks import executor_nodes, task_details, workflow_nodes
from headrace.pipeline.kubeflow.server.versions import specification_of
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status
from headrace.pipeline.terminal import Display

STATES = {
    None: Status.WAITING,
    "RUNTIME_STATE_UNSPECIFIED": Status.WAITING,
    "PENDING": Status.WAITING,
    "RUNNING": Status.RUNNING,
    "SUCCEEDED": Status.DONE,
    "CACHED": Status.CACHED,
    "SKIPPED": Status.SKIPPED,
    "FAILED": Status.FAILED,
    "CANCELING": Status.RUNNING,
    "CANCELED": Status.INTERRUPTED,
    "PAUSED": Status.WAITING,
}
RUN_STATES = {
    "PENDING": Status.WAITING,
    "SUCCEEDED": Status.DONE,
    "FAILED": Status.FAILED,
    "CANCELED": Status.INTERRUPTED,
    "SKIPPED": Status.DONE,
}
POLL_SECONDS = 5.0
LOST_SECONDS = 60.0
"""Between looks for the workflow of a run, whose loss the API does not show."""
PATIENCE = 600.0
"""Seconds without an answer after which `follow` gives up. An API server that restarts is back by then."""
EXIT = re.compile(r"^(?:main: )?Error \(exit code \d+\)(?:: )?")
"""Matches what Argo puts before the termination message of a pod."""
KILLED = re.compile(r"OOMKilled|exit code 137\b")
"""Matches Argo's message for a pod. 137 is SIGKILL, which only the kernel sends to a component's container."""


@dataclass(frozen=True)
class Clock:
    """How to wait, and what time it is in seconds."""

    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic


CLOCK = Clock()


class LossWatch:
    """Looks for the workflow of a run that is followed, at most once in LOST_SECONDS."""

    def __init__(self, session: Session, clock: Clock = CLOCK) -> None:
        self._session, self._now, self._looked = session, clock.now, -LOST_SECONDS

    def mark(self, run: Any) -> None:
        """Set `run.gone` if it is time to look and the workflow is gone."""
        if self._now() - self._looked >= LOST_SECONDS:
            self._session.mark_lost([run])
            self._looked = self._now()


def run_record(run: Any, tasks: Mapping[str, Any], pipeline: str) -> RunRecord:
    """The record of a run. tasks: those of the compiled graph, as `document.flat_graph` returns them."""
    details = task_details(run)
    status = RUN_STATES.get(run.state, Status.RUNNING)
    if runs.is_cancelled(run) or runs.is_lost(run, dt.datetime.now(dt.UTC)):
        status = Status.INTERRUPTED
    nodes = [_node(name, tasks[name], _latest(details, name)) for name in _order(tasks)]
    _mark_cached(nodes, details)
    if status.ended:
        _settle(nodes)
    return RunRecord(
        run_id=run.display_name,
        pipeline=pipeline,
        config_file="",
        started=_seconds(run.created_at) or 0.0,
        finished=_seconds(run.finished_at) if status.ended else None,
        status=status,
        error=run.error.message if run.error else None,
        nodes=nodes,
    )


def show(session: Session, run: Any, display: Display) -> RunRecord:
    shown = run_record(run, session.tasks(run), session.pipeline)
    display.update(shown)
    return shown


def follow(
    session: Session, run: Any, display: Display, notify: Callable[[str], None], clock: Clock = CLOCK
) -> tuple[RunRecord, Any]:
    """Show the run until it has ended or is lost. Returns its record and the run itself.

    Raises RunError if it is deleted, ServerError if the server refuses or is unreachable for long. notify: called once
    when the server becomes unreachable, and once when it is back.
    """
    tasks, last, unreachable = session.tasks(run), clock.now(), False
    loss = LossWatch(session, clock)
    while True:
        loss.mark(run)
        shown = run_record(run, tasks, session.pipeline)
        display.update(shown)
        if shown.status.ended:
            return shown, run
        clock.sleep(POLL_SECONDS)
        try:
            run = runs.read_again(session.server, run)
        except ServerError as error:
            if not is_unclear(error) or clock.now() - last >= PATIENCE:
                hint = f"The run {run.display_name} continues without this command; follow it with"
                raise ServerError(
                    f"{error}\n  {hint} `headrace status --watch`.", error.status, slow=error.slow
                ) from None
            if not unreachable:
                notify(f"{error}\n  The run continues; retrying for {PATIENCE / 60:.0f} minutes.")
            unreachable = True
        else:
            if unreachable:
                notify("The server answers again.")
            last, unreachable = clock.now(), False


def killed_for_memory(session: Session, run: Any) -> dict[str, str]:
    """The components whose last pod was killed because it ran out of memory, with advice."""
    return {
        component: f"{component} was killed because {why}\n{_memory_advice(component, limit)}"
        for component, (why, limit) in _memory_kills(session, run).items()
    }


def causes(session: Session, shown: RunRecord, run: Any) -> dict[str, str]:
    """What the failed components said about it, by component; "" if that is not known.

    A pod's last words are its termination message (`entrypoint.py`), which Argo repeats as the message of the pod's
    node, and the API server as the error of a task.
    """
    try:
        nodes = workflow_nodes(session.server, run.run_id)
    except ServerError:
        nodes = []
    tasks = session.tasks(run)
    said = {
        component_of(tasks[task], task): str(node.get("message", ""))
        for task, node in executor_nodes(nodes)
        if task in tasks
    }
    failed = [node for node in shown.nodes if node.status is Status.FAILED]
    return {node.id: EXIT.sub("", said.get(node.id) or node.error or "", count=1).strip() for node in failed}


def memory_kills(session: Session, run: Any) -> dict[str, str]:
    """The components whose last pod was killed because it ran out of memory, with the reason in a line."""
    return {component: why for component, (why, _) in _memory_kills(session, run).items()}


def _memory_kills(session: Session, run: Any) -> dict[str, tuple[str, str]]:
    """By component the reason, and the limit or "".

    Argo's messages show it; the API's own tasks do not. Empty if the server has no workflow.
    """
    try:
        nodes = workflow_nodes(session.server, run.run_id)
    except ServerError:
        return {}
    last = {task: str(node.get("message", "")) for task, node in executor_nodes(nodes)}
    killed = {task for task, message in last.items() if KILLED.search(message)}
    if not killed:
        return {}
    components = {name: component_of(task, name) for name, task in session.tasks(run).items()}
    whole = specification_of(session.server, run)
    specification = whole.get("pipeline_spec", whole)
    limits = {task: _memory_limit(specification, task) for task in sorted(killed & components.keys())}
    return {components[task]: (_out_of_memory(limit), limit) for task, limit in limits.items()}


def _out_of_memory(limit: str) -> str:
    return f"its pod ran out of memory{f' at its limit of {limit}' if limit else ''} (OOMKilled, exit code 137)"


def _memory_advice(component: str, limit: str) -> str:
    return (
        f"  give it more, such as kubeflow.components.{component}.memory_limit: {_doubled(limit)},"
        " and set `memory` to what it usually takes"
    )


def _doubled(limit: str) -> str:
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", limit)
    return f"{float(found[1]) * 2:g}{found[2]}" if found else "16Gi"


def _memory_limit(specification: Mapping[str, Any], task: str) -> str:
    return str(container_of(specification, task).get("resources", {}).get("resourceMemoryLimit", ""))


def _order(tasks: Mapping[str, Any]) -> list[str]:
    """In the order in which they can run; by name among those that can run at once."""
    sorter = graphlib.TopologicalSorter({name: sorted(tasks[name].get("dependentTasks", ())) for name in sorted(tasks)})
    return list(sorter.static_order())


def _latest(details: Sequence[Any], name: str) -> Any | None:
    found = [one for one in details if one.display_name == name]
    return max(found, key=lambda one: _seconds(one.start_time) or 0.0) if found else None


def _node(name: str, task: Mapping[str, Any], detail: Any | None) -> NodeRecord:
    node = NodeRecord(id=component_of(task, name), upstream=list(task.get("dependentTasks", ())))
    if detail is not None:
        node.status = STATES.get(detail.state, Status.RUNNING)
        node.started = _seconds(detail.start_time)
        node.finished = _seconds(detail.end_time) if node.status.ended else None
        node.error = detail.error.message if detail.error else None
    if node.status is Status.SKIPPED:
        node.started = node.finished = None  # the server reports the second in which it was skipped
    return node


def _mark_cached(nodes: Sequence[NodeRecord], details: Sequence[Any]) -> None:
    skipped = Counter(
        _seconds(one.start_time) for one in details if one.display_name == "executor" and one.state == "SKIPPED"
    )
    done = [node for node in nodes if node.status is Status.DONE]
    for node in sorted(done, key=lambda node: node.seconds(0.0) or 0.0):
        if skipped[node.started] > 0:
            skipped[node.started] -= 1
            node.status = Status.CACHED


def _settle(nodes: Sequence[NodeRecord]) -> None:
    """What has not started when the run ends will not run; what was running was interrupted, nobody knows when."""
    for node in nodes:
        if node.status is Status.WAITING:
            node.status, node.started, node.finished = Status.SKIPPED, None, None
        elif node.status is Status.RUNNING:
            node.status, node.started = Status.INTERRUPTED, None


def _seconds(moment: dt.datetime | None) -> float | None:
    """Unix seconds; None for a moment in the future, for which the server reports 1970 or less."""
    if moment is None:
        return None
    seconds = moment.timestamp()
    return seconds if seconds > 0 else None
