"""The tasks of a run from a server without ML Metadata, which keeps tasks and artifacts itself.

Up to release 2.18 the API tells of tasks in a run's `run_details.task_details`: Argo's nodes, with no inputs. Its
successor has no such field (kubeflow/pipelines#13986). There a run has `task_count`, and its tasks are at
`/apis/v2beta1/runs/<id>/tasks`, with states, pods, inputs and outputs of their own. Neither `healthz` nor a release
says which of the two a server is, so `task_count` of the run decides: only the successor sends it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.configs.errors import ServerError
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.listing import PAGE
from headrace.pipeline.kubeflow.server.nodes import nodes_of

PATH = "/apis/v2beta1/runs/{run_id}/tasks"
ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
"""States of a run."""
PHASES = {
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Succeeded": "SUCCEEDED",
    "Skipped": "SKIPPED",
    "Omitted": "SKIPPED",
}
"""Argo's phases of a node to states of a task; all others are failures."""


@dataclass(frozen=True)
class Message:
    """Why a task failed."""

    message: str


@dataclass(frozen=True)
class Task:
    """A task as the server tells of it. The first five fields are named as in `run_details.task_details`."""

    display_name: str
    """Its name in the compiled pipeline, `example-gen`."""
    state: str | None
    start_time: dt.datetime | None
    end_time: dt.datetime | None
    error: Message | None
    pods: Sequence[str] = ()
    """Of its container, those of the first try first. The launcher adds a try's pod only when the try has ended."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """In the form of the executor input's `inputs`."""


def add_tasks(server: Connection, run: Any) -> Any:
    """The run with `tasks`, a list of Task, or None where `run_details` tells of them. Raises ServerError.

    A run from before the server was upgraded has neither. Once it has ended, its Argo workflow tells how its tasks did.
    """
    run.tasks = None
    if run.task_count:
        run.tasks = [_task(one) for one in _pages(server, run.run_id)]
    elif run.state in ENDED and not (run.run_details and run.run_details.task_details):
        with contextlib.suppress(ServerError):
            run.tasks = [_of_node(node) for node in nodes_of(server, run.run_id)] or None
    return run


def details_of(run: Any) -> Sequence[Any]:
    """What the server tells of a run's tasks, whichever server it is; see Task for what all have."""
    if run.tasks is not None:
        found: Sequence[Any] = run.tasks
        return found
    return (run.run_details and run.run_details.task_details) or ()


def _pages(server: Connection, run_id: str) -> Iterator[Mapping[str, Any]]:
    token = ""
    while True:
        query = {"page_size": str(PAGE), **({"page_token": token} if token else {})}
        answer = json.loads(server.text("read the run's tasks", PATH, query, run_id=run_id))
        yield from answer.get("tasks", ())
        token = answer.get("next_page_token", "")
        if not token:
            return


def _task(told: Mapping[str, Any]) -> Task:
    message = told.get("status_metadata", {}).get("message", "")
    return Task(
        display_name=told.get("name", ""),
        state=told.get("state"),
        start_time=_moment(told.get("create_time")),
        end_time=_moment(told.get("end_time")),
        error=Message(message) if message else None,
        pods=[pod["name"] for pod in told.get("pods", ()) if pod.get("type") == "EXECUTOR"],
        inputs=_inputs(told.get("inputs", {})),
    )


def _inputs(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "parameterValues": {one["parameter_key"]: one.get("value") for one in told.get("parameters", ())},
        "artifacts": {
            one["artifact_key"]: {"artifacts": [_artifact(artifact) for artifact in one["artifacts"]]}
            for one in told.get("artifacts", ())
            if one.get("artifacts")
        },
    }


def _artifact(told: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": told.get("name", ""), "artifactId": told.get("artifact_id", ""), "uri": told.get("uri", "")}


def _of_node(node: Mapping[str, Any]) -> Task:
    phase = str(node.get("phase", ""))
    message = str(node.get("message", ""))
    return Task(
        display_name=str(node.get("displayName", "")),
        state=PHASES.get(phase, "FAILED"),
        start_time=_moment(node.get("startedAt")),
        end_time=_moment(node.get("finishedAt")),
        error=Message(message) if message else None,
    )


def _moment(told: str | None) -> dt.datetime | None:
    return dt.datetime.fromisoformat(told) if told else None
