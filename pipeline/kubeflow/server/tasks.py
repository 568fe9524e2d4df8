"""The tasks of a run, from servers with and without ML Metadata.

Up to release 2.18, the API reports tasks in a run's `run_details.task_details`: the nodes of Argo's workflow, without
inputs. Its successor has no such field (kubeflow/pipelines#13986). There a run has `task_count`, and its tasks are at
`/apis/v2beta1/runs/<id>/tasks`, with states, pods, inputs and outputs of their own. Neither `healthz` nor the release
shows which of the two a server is, so `task_count` of the run decides: only the successor sends it.

What either lacks (messages of killed pods, executor inputs) is read from the workflow, which the API server stores.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.common.errors import ServerError
from headrace.pipeline.kubeflow.server.connection import PAGE_SIZE, Connection

PATH = "/apis/v2beta1/runs/{run_id}/tasks"
ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED")
"""States of a run."""
GROUP = "exit-handler-1"
"""The group of all tasks of ours in a pipeline with an exit handler, as the KFP SDK calls it."""
PHASES = {
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Succeeded": "SUCCEEDED",
    "Skipped": "SKIPPED",
    "Omitted": "SKIPPED",
}
"""Argo's phases of a node to states of a task; all others are failures."""
EXECUTOR = re.compile(r"(?:^|\.)([\w-]+)(?:\(\d+\))?\.executor(?:\((\d+)\))?$")
"""The end of the name of a pod's node, `wf(0).root(0).trainer(0).executor(1)`."""


@dataclass(frozen=True)
class TaskError:
    """Why a task failed."""

    message: str


@dataclass(frozen=True)
class TaskDetail:
    """A task as the server reports it. The first five fields are named as in `run_details.task_details`."""

    display_name: str
    """Its name in the compiled pipeline, `example-gen`."""
    state: str | None
    start_time: dt.datetime | None
    end_time: dt.datetime | None
    error: TaskError | None
    pods: Sequence[str] = ()
    """The pods of its container, the first try first. The launcher adds the pod of a try when the try has ended."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """In the form of the executor input's `inputs`."""


def add_tasks(server: Connection, run: Any) -> Any:
    """Set `run.tasks` to a list of TaskDetail, or to None if `run_details` has the tasks. Raises ServerError.

    A run from before the server was upgraded has neither. Once it has ended, its Argo workflow shows its tasks.
    """
    run.tasks = None
    if run.task_count:
        run.tasks = [_detail(one) for one in _pages(server, run.run_id)]
    elif run.state in ENDED and not (run.run_details and run.run_details.task_details):
        with contextlib.suppress(ServerError):
            run.tasks = [_detail_of_node(node) for node in workflow_nodes(server, run.run_id)] or None
    return run


def task_details(run: Any) -> Sequence[Any]:
    """The tasks of a run from either kind of server. TaskDetail lists the fields that all have."""
    if run.tasks is not None:
        found: Sequence[Any] = run.tasks
        return found
    return (run.run_details and run.run_details.task_details) or ()


def exit_group(run: Any) -> Any | None:
    """The last group of all tasks of a run with an exit handler, as one of `task_details`; None if there is none."""
    found = [one for one in task_details(run) if one.display_name == GROUP and one.start_time is not None]
    return max(found, key=lambda one: one.start_time, default=None)


def workflow_nodes(server: Connection, run_id: str) -> list[Mapping[str, Any]]:
    """The nodes of a run's Argo workflow; empty if the server has none. Raises ServerError."""
    answer = server.text("read the run's workflow", "/apis/v1beta1/runs/{run_id}", run_id=run_id)
    try:
        manifest = json.loads(json.loads(answer)["pipeline_runtime"]["workflow_manifest"])
        return list(manifest["status"]["nodes"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def executor_nodes(nodes: list[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The nodes of the pods of tasks, with the names of the tasks, each try after the one before."""
    found = [(match, node) for node in nodes if (match := EXECUTOR.search(str(node.get("name", ""))))]
    for match, node in sorted(found, key=lambda one: (str(one[1].get("startedAt", "")), int(one[0][2] or 0))):
        if node.get("type") == "Pod":
            yield match[1], node


def executor_inputs(server: Connection, run_id: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The names and executor inputs of the tasks whose containers ran, if the server has them. Raises ServerError."""
    for node in workflow_nodes(server, run_id):
        outputs = {one["name"]: one.get("value", "") for one in node.get("outputs", {}).get("parameters", [])}
        found = _executor_input(outputs.get("pod-spec-patch", ""))
        name = str(node.get("displayName", ""))
        if found is not None and name.endswith("-driver"):
            yield name.removesuffix("-driver"), found


def reported_inputs(server: Connection, run: Any) -> dict[str, Mapping[str, Any]]:
    """The executor inputs of a run's tasks by name, as far as either kind of server has them."""
    if run.task_count:
        return {task.display_name: {"inputs": task.inputs} for task in run.tasks}
    try:
        return dict(executor_inputs(server, run.run_id))
    except ServerError:
        return {}


def _executor_input(patch: str) -> Mapping[str, Any] | None:
    """What the driver passed to the launcher: an argument in the patch of its pod."""
    try:
        (command,) = [one["command"] for one in json.loads(patch)["containers"] if "--executor_input" in one["command"]]
        found: Mapping[str, Any] = json.loads(command[command.index("--executor_input") + 1])
        return found
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _pages(server: Connection, run_id: str) -> Iterator[Mapping[str, Any]]:
    token = ""
    while True:
        query = {"page_size": str(PAGE_SIZE), **({"page_token": token} if token else {})}
        answer = json.loads(server.text("read the run's tasks", PATH, query, run_id=run_id))
        yield from answer.get("tasks", ())
        token = answer.get("next_page_token", "")
        if not token:
            return


def _detail(task: Mapping[str, Any]) -> TaskDetail:
    message = task.get("status_metadata", {}).get("message", "")
    return TaskDetail(
        display_name=task.get("name", ""),
        state=task.get("state"),
        start_time=_moment(task.get("create_time")),
        end_time=_moment(task.get("end_time")),
        error=TaskError(message) if message else None,
        pods=[pod["name"] for pod in task.get("pods", ()) if pod.get("type") == "EXECUTOR"],
        inputs=_inputs(task.get("inputs", {})),
    )


def _inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "parameterValues": {one["parameter_key"]: one.get("value") for one in inputs.get("parameters", ())},
        "artifacts": {
            one["artifact_key"]: {"artifacts": [_artifact(artifact) for artifact in one["artifacts"]]}
            for one in inputs.get("artifacts", ())
            if one.get("artifacts")
        },
    }


def _artifact(one: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": one.get("name", ""), "artifactId": one.get("artifact_id", ""), "uri": one.get("uri", "")}


def _detail_of_node(node: Mapping[str, Any]) -> TaskDetail:
    phase = str(node.get("phase", ""))
    message = str(node.get("message", ""))
    return TaskDetail(
        display_name=str(node.get("displayName", "")),
        state=PHASES.get(phase, "FAILED"),
        start_time=_moment(node.get("startedAt")),
        end_time=_moment(node.get("finishedAt")),
        error=TaskError(message) if message else None,
    )


def _moment(text: str | None) -> dt.datetime | None:
    return dt.datetime.fromisoformat(text) if text else None
