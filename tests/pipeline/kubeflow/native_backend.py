"""A server of Kubeflow Pipelines without ML Metadata, whose API tells of tasks and artifacts itself.

Its answers have the fields of the messages `Run`, `PipelineTask` and `Artifact` in `backend/api/v2beta1/run.proto` and
`artifact.proto` of kubeflow/pipelines#13986, named and left out as its gateway does (names of the definition, nothing
that is empty): `run_details.task_details` is gone, a run has `task_count`, and `runs/<id>/tasks` lists its tasks by
pages. States, pods and inputs come as its driver and launcher write them: a task is RUNNING from the driver on, a hit
of the cache is CACHED with all inputs, the pod of a try is added when the try has ended, an artifact's name is the one
that the component gave it, and its id is beside it.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from faulty_backend import Answer, Backend

PAGE = 2
"""Tasks of a page at most, whatever is asked for."""
WORKFLOW = "taxi-abc"


class NativeBackend(Backend):
    """Runs of a version of a pipeline. `tasks` and `nodes` (of the workflow) by a run's id, `logs` by a pod's name."""

    def __init__(self) -> None:
        super().__init__()
        self.release = "unknown"  # as built from its sources; the number of its release is not decided
        self.pipeline = "trips"
        self.specification: dict[str, Any] = {}
        self.tasks: dict[str, list[dict[str, Any]]] = {}
        self.nodes: dict[str, list[dict[str, Any]]] = {}
        self.logs: dict[str, str] = {}

    def add(
        self, run: Mapping[str, Any], tasks: Sequence[dict[str, Any]], nodes: Sequence[dict[str, Any]] = ()
    ) -> None:
        """A run, with its tasks, and the nodes of its workflow."""
        counted = {"task_count": len(tasks)} if tasks else {}
        self.runs.append({**run, **counted})
        self.tasks[run["run_id"]] = list(tasks)
        self.nodes[run["run_id"]] = list(nodes)

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        url = urllib.parse.urlparse(path)
        found: Any
        match url.path.strip("/").split("/"):
            case ["apis", "v2beta1", "experiments"]:
                found = {"experiments": [{"experiment_id": "e", "display_name": self.pipeline}]}
            case ["apis", "v2beta1", "pipelines"]:
                found = {"pipelines": [{"pipeline_id": "p", "display_name": self.pipeline}]}
            case ["apis", "v2beta1", "pipelines", "p", "versions", "v"]:
                found = {"pipeline_version_id": "v", "pipeline_spec": self.specification}
            case ["apis", "v2beta1", "runs"] if "filter" not in url.query:
                found = {"runs": sorted(self.runs, key=lambda run: str(run["created_at"]), reverse=True)}
            case ["apis", "v2beta1", "runs", run_id, "tasks"]:
                found = self._page(run_id, urllib.parse.parse_qs(url.query))
            case ["apis", "v2beta1", "runs", run_id] if method == "GET":
                found = next((run for run in self.runs if run["run_id"] == run_id), None)
            case ["apis", "v1alpha1", "runs", _, "nodes", pod, "log"]:
                found = self.logs.get(pod)
            case ["apis", "v1beta1", "runs", run_id]:
                manifest = {"status": {"nodes": {node["id"]: node for node in self.nodes[run_id]}}}
                found = {"pipeline_runtime": {"workflow_manifest": json.dumps(manifest)}}
            case _:
                return super().answer(method, path, body)
        return (404, {"message": f"{url.path} not found"}) if found is None else (200, found)

    def _page(self, run_id: str, query: Mapping[str, list[str]]) -> dict[str, Any]:
        first = int(query.get("page_token", ["0"])[0])
        last = first + min(PAGE, int(query["page_size"][0]))
        found = self.tasks[run_id]
        more = {"next_page_token": str(last)} if last < len(found) else {}
        return {"tasks": found[first:last], "total_size": len(found), **more}


def task(name: str, state: str, begun: str, ended: str | None = None, **more: Any) -> dict[str, Any]:
    """A PipelineTask of a component. more: further fields of it."""
    return {
        "name": name,
        "display_name": name.title().replace("-", ""),
        "task_id": f"id-of-{name}",
        "run_id": "id-0",
        "pods": [{"name": f"{WORKFLOW}-system-container-driver-1", "uid": "u", "type": "DRIVER"}],
        "create_time": begun,
        "state": state,
        "type": "RUNTIME",
        "parent_task_id": "id-of-root",
        "inputs": {},
        "outputs": {},
        "scope_path": f"root.{name}",
        **({"end_time": ended} if ended else {}),
        **more,
    }


def pods(*names: str) -> list[dict[str, str]]:
    """The driver's pod, and the executors'."""
    driver = {"name": f"{WORKFLOW}-system-container-driver-1", "uid": "u", "type": "DRIVER"}
    return [driver, *({"name": name, "uid": "u", "type": "EXECUTOR"} for name in names)]


def root(state: str, begun: str) -> dict[str, Any]:
    """The task above all others."""
    return {"name": "root", "task_id": "id-of-root", "run_id": "id-0", "state": state, "type": "ROOT",
            "create_time": begun, "inputs": {}, "outputs": {}, "scope_path": "root"}  # fmt: skip


def artifact(key: str, producer: str, identity: str, uri: str) -> dict[str, Any]:
    """An input artifact of a task."""
    one = {
        "artifact_id": identity,
        "name": key,
        "type": "Artifact",
        "uri": uri,
        "metadata": {"_kfp_schema_title": "tfx.Examples"},
    }
    return {
        "artifacts": [one],
        "type": "TASK_OUTPUT_INPUT",
        "artifact_key": key,
        "producer": {"task_name": producer},
    }


def node(name: str, number: int, phase: str, started: str, template: str = "system-container-impl") -> dict[str, Any]:
    """A pod's node of the workflow, `trainer(0).executor(1)` below the root."""
    return {
        "id": f"{WORKFLOW}-{number}",
        "name": f"{WORKFLOW}(0).root(0).{name}",
        "displayName": name.rpartition(".")[2],
        "type": "Pod",
        "phase": phase,
        "templateName": template,
        "startedAt": started,
    }
