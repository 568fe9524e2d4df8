"""What a cluster would tell Kubeflow's API server of workflows and their pods, told by a test."""

from __future__ import annotations

import functools
import json
import time
import urllib.request
from typing import Any

from kfp_server import Server


def post(server: Server, path: str, body: Any) -> None:
    request = urllib.request.Request(
        server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    urllib.request.urlopen(request, timeout=30).close()


def report(server: Server, run_id: str, phase: str, nodes: dict[str, tuple[str, str, int, int]]) -> None:
    """What the persistence agent tells of a workflow. nodes: by id: name shown, phase, first and last second."""
    workflow = server.workflow(run_id)
    now = int(time.time())
    workflow["metadata"].setdefault("uid", run_id)
    workflow["metadata"].setdefault("namespace", "kubeflow")
    workflow["metadata"]["labels"]["pipeline/runid"] = run_id
    workflow["status"] = {
        "phase": phase,
        "startedAt": stamp(now),
        **({"finishedAt": stamp(now + 60)} if phase in ("Succeeded", "Failed") else {}),
        "nodes": {
            node: {
                "id": node,
                "name": f"{workflow['metadata']['name']}.root.{node}",
                "displayName": shown,
                "type": "Pod" if shown == "executor" else "DAG",
                "phase": state,
                "templateName": "system-container-executor",
                "startedAt": stamp(now + first),
                **({"finishedAt": stamp(now + last)} if state != "Running" else {}),
            }
            for node, (shown, state, first, last) in nodes.items()
        },
    }
    post(server, "/apis/v2beta1/workflows", json.dumps(workflow))


def stamp(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def with_pod(server: Server, workflow: Any, run_id: str, task: str) -> str:
    """Report a task that has a pod, with the names that Argo gives; the pod's."""
    name = workflow["metadata"]["name"]
    node = f"{name}.root.{task}.executor"
    hashed = argos_hash(node)
    nodes = {
        f"{name}-1": (f"{name}.root.{task}", task, "DAG", "system-container-executor", [f"{name}-{hashed}"]),
        f"{name}-{hashed}": (node, "executor", "Pod", "system-container-impl", []),
    }
    workflow["metadata"].update({"uid": run_id, "namespace": "kubeflow"})
    workflow["metadata"]["labels"]["pipeline/runid"] = run_id
    workflow["status"] = {
        "phase": "Running",
        "startedAt": stamp(int(time.time())),
        "nodes": {
            id_: {
                "id": id_,
                "name": full,
                "displayName": shown,
                "type": kind,
                "templateName": template,
                "phase": "Running",
                "startedAt": stamp(int(time.time())),
                "children": children,
            }
            for id_, (full, shown, kind, template, children) in nodes.items()
        },
    }
    post(server, "/apis/v2beta1/workflows", json.dumps(workflow))
    return f"{name}-system-container-impl-{hashed}"


def argos_hash(text: str) -> int:
    """Argo's hash of a node's name (Go's hash/fnv, New32a)."""
    return functools.reduce(lambda found, byte: ((found ^ byte) * 16777619) & 0xFFFFFFFF, text.encode(), 2166136261)


def put(server: Server, path: str, text: str) -> None:
    """Have a pod's log, or an object, there: what the server itself would ask the cluster for."""
    request = urllib.request.Request(server.url + path, text.encode(), method="PUT")
    urllib.request.urlopen(request, timeout=30).close()
