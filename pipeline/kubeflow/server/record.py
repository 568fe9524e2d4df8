"""A run on the server as the record that the terminal shows.

A server with ML Metadata tells of Argo's nodes, without saying which belongs to which. A task of ours is a node of the
task's name; what its cache held has an `executor` beside it that was skipped in the same second. A server without it
tells of the tasks themselves, and which it took from its cache.
"""

from __future__ import annotations

import datetime as dt
import graphlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.pipeline.kubeflow.server.native import details_of
from headrace.pipeline.kubeflow.server.runs import is_cancelled, is_lost
from headrace.pipeline.local.record import NodeRecord, RunRecord, Status

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


def record(run: Any, tasks: Mapping[str, Any], pipeline: str) -> RunRecord:
    """tasks: of the compiled graph, in `tasks_of`'s form."""
    details = details_of(run)
    status = RUN_STATES.get(run.state, Status.RUNNING)
    if is_cancelled(run) or is_lost(run, dt.datetime.now(dt.UTC)):
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


def _order(tasks: Mapping[str, Any]) -> list[str]:
    """As they can run; among those that can at once, by name."""
    sorter = graphlib.TopologicalSorter({name: sorted(tasks[name].get("dependentTasks", ())) for name in sorted(tasks)})
    return list(sorter.static_order())


def _latest(details: Sequence[Any], name: str) -> Any | None:
    found = [one for one in details if one.display_name == name]
    return max(found, key=lambda one: _seconds(one.start_time) or 0.0) if found else None


def _node(name: str, task: Mapping[str, Any], detail: Any | None) -> NodeRecord:
    node = NodeRecord(id=task.get("taskInfo", {}).get("name", name), upstream=list(task.get("dependentTasks", ())))
    if detail is not None:
        node.status = STATES.get(detail.state, Status.RUNNING)
        node.started = _seconds(detail.start_time)
        node.finished = _seconds(detail.end_time) if node.status.ended else None
        node.error = detail.error.message if detail.error else None
    if node.status is Status.SKIPPED:
        node.started = node.finished = None  # the server gives it the second in which it was passed over
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
    """What has not begun when the run ends will not run; what was running was interrupted."""
    for node in nodes:
        if node.status is Status.WAITING:
            node.status, node.started, node.finished = Status.SKIPPED, None, None
        elif node.status is Status.RUNNING:
            node.status = Status.INTERRUPTED


def _seconds(moment: dt.datetime | None) -> float | None:
    """Unix seconds; None for what has not come: the server says 1970 then, or less."""
    if moment is None:
        return None
    seconds = moment.timestamp()
    return seconds if seconds > 0 else None
