"""What a cluster would report to Kubeflow's API server about workflows and their pods, reported by a test.

Nodes are named as Argo does with Kubeflow's configuration, in which each is tried again: `wf(0).root(0).trainer(0)`.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from kfp_argo import EXECUTOR, node_id
from kfp_server import Server

ENDED = ("Succeeded", "Failed", "Error", "Skipped")


def post(server: Server, path: str, body: Any = "") -> Any:
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read() or "null")


def tell(server: Server, run_id: str, status: Mapping[str, Any]) -> None:
    """What the persistence agent tells of a run's workflow."""
    workflow = server.workflow(run_id)
    metadata = workflow["metadata"]
    metadata.setdefault("uid", run_id)
    metadata.setdefault("namespace", "kubeflow")
    metadata["creationTimestamp"] = metadata.get("creationTimestamp") or stamp(int(time.time()))
    metadata["labels"]["pipeline/runid"] = run_id
    post(server, "/apis/v2beta1/workflows", json.dumps({**workflow, "status": status}))


def report(server: Server, run_id: str, phase: str, nodes: Mapping[str, tuple[str, str, int, int]]) -> None:
    """Tell of a workflow's tasks. nodes: in order: task or `executor` (of the task before), phase, first and last
    second.
    """
    workflow, now = server.workflow(run_id)["metadata"]["name"], int(time.time())
    found: dict[str, Any] = {}
    for one in _frame(workflow, now):
        found[one["id"]] = {**one, "phase": phase}
    task = ""
    for shown, state, first, last in nodes.values():
        task = task if shown == EXECUTOR else shown
        parts = (task, EXECUTOR) if shown == EXECUTOR else (task,)
        for one in _tried(workflow, parts, state, (now + first, now + last)):
            found[one["id"]] = one
    ended = {"finishedAt": stamp(now + 60)} if phase in ENDED else {}
    tell(server, run_id, {"phase": phase, "startedAt": stamp(now), "nodes": found, **ended})


def cancelled(server: Server, run_id: str) -> None:
    """What Argo makes of a run that was terminated: its deadline is over, so it failed. Only in what is reported before
    the end the server sees that somebody asked for that.
    """
    assert server.workflow(run_id)["spec"]["activeDeadlineSeconds"] == 0
    report(server, run_id, "Running", {"a": ("spans", "Running", 0, 0)})
    report(server, run_id, "Failed", {"a": ("spans", "Failed", 0, 9)})


def with_pod(server: Server, workflow: Any, run_id: str, task: str, tries: int = 1) -> str:
    """Report a task that has a pod, after this many tries, the last of which runs; the pod's name."""
    name, now = workflow["metadata"]["name"], int(time.time())
    found = {one["id"]: one for one in _frame(name, now)}
    found.update((one["id"], one) for one in _tried(name, (task,), "Running", (now, now)))
    node = f"{name}(0).root(0).{task}(0).executor"
    executor = _node(name, node, EXECUTOR, "Retry", "Running", (now, now))
    for number in range(tries):
        state = "Running" if number == tries - 1 else "Error"
        one = _node(name, f"{node}({number})", f"{EXECUTOR}({number})", "Pod", state, (now, now))
        found[one["id"]] = one
        executor["children"].append(one["id"])
    found[executor["id"]] = executor
    found[node_id(name, f"{name}(0).root(0).{task}(0)")]["children"].append(executor["id"])
    tell(server, run_id, {"phase": "Running", "startedAt": stamp(now), "nodes": found})
    return f"{name}-system-container-impl-{node_id(name, f'{node}({tries - 1})').rpartition('-')[2]}"


def archived(server: Server, run_id: str, pod: str, text: str, ended: str = "") -> None:
    """End a run whose one pod was reported, with its log in the archive, at the key of Kubeflow's `keyFormat`.

    ended: Argo's message of a pod that failed.
    """
    workflow = server.get(f"/apis/v1beta1/runs/{run_id}")["pipeline_runtime"]["workflow_manifest"]
    status = json.loads(workflow)["status"]
    key = f"private-artifacts/kubeflow/{pod.partition('-system-')[0]}/2026/01/02/{pod}/main.log"
    for node in status["nodes"].values():
        phase = "Succeeded" if not ended or node["phase"] == "Error" else "Failed"
        node.update({"phase": phase, "finishedAt": stamp(int(time.time()))})
        if node["type"] == "Pod" and node["id"].rpartition("-")[2] == pod.rpartition("-")[2]:
            node["outputs"] = {"artifacts": [{"name": "main-logs", "s3": {"key": key}}]}
            node["message"] = ended
    put(server, f"/objects/{key}", text)
    phase = "Failed" if ended else "Succeeded"
    tell(server, run_id, {**status, "phase": phase, "finishedAt": stamp(int(time.time()))})


def _frame(workflow: str, now: int) -> Iterator[dict[str, Any]]:
    """The nodes around those of the tasks."""
    yield _node(workflow, workflow, workflow, "Retry", "Running", (now, now), f"{workflow}(0)")
    yield _node(workflow, f"{workflow}(0)", f"{workflow}(0)", "DAG", "Running", (now, now), f"{workflow}(0).root")
    root = f"{workflow}(0).root"
    yield _node(workflow, root, "root", "Retry", "Running", (now, now), f"{root}(0)")
    yield _node(workflow, f"{root}(0)", "root(0)", "DAG", "Running", (now, now))


def _tried(workflow: str, parts: tuple[str, ...], state: str, times: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """A node that is tried again, and its first try; what is skipped is not tried."""
    name = ".".join([f"{workflow}(0)", "root(0)", *(f"{part}(0)" for part in parts[:-1]), parts[-1]])
    kind = "Pod" if parts[-1] == EXECUTOR else "DAG"
    if state == "Skipped":
        yield _node(workflow, name, parts[-1], "Skipped", state, times)
        return
    yield _node(workflow, name, parts[-1], "Retry", state, times, f"{name}(0)")
    yield _node(workflow, f"{name}(0)", f"{parts[-1]}(0)", kind, state, times)


def _node(
    workflow: str, name: str, shown: str, kind: str, state: str, times: tuple[int, int], child: str = ""
) -> dict[str, Any]:
    ended = {"finishedAt": stamp(times[1])} if state in ENDED else {}
    return {
        "id": node_id(workflow, name),
        "name": name,
        "displayName": shown,
        "type": kind,
        "phase": state,
        "templateName": "system-container-impl" if kind == "Pod" else "system-container-executor",
        "startedAt": stamp(times[0]),
        "children": [node_id(workflow, child)] if child else [],
        **ended,
    }


def stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def put(server: Server, path: str, text: str) -> None:
    """Have a pod's log, or an object, there: what the server itself would ask the cluster for."""
    request = urllib.request.Request(server.url + path, text.encode(), method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
