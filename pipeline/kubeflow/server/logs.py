"""What a component's pod wrote, as the API server reads it: from the pod while it is there, from Argo's archive later.

The API tells no pods' names. They follow from the names that Kubeflow gives to the nodes of a workflow and Argo to
their pods, `<workflow>-<template>-<FNV-1a of the node's name>`.
"""

from __future__ import annotations

from typing import Any

from configs.errors import RunError
from configs.kubeflow import ComponentSettings
from pipeline.kubeflow.server.connection import Connection

PATH = "/apis/v1alpha1/runs/{run_id}/nodes/{node_id}/log"
IMPLEMENTATION = "system-container-impl"
_FAULT = '{"error_message"'


def fnv1a(text: str) -> int:
    """The 32-bit hash of Fowler, Noll and Vo, variant 1a (http://www.isthe.com/chongo/tech/comp/fnv)."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 % 2**32
    return found


def template(settings: ComponentSettings) -> str:
    """Kubeflow's name for the template of a task's container: by what is asked of it."""
    labels = f"metadata-0-{len(settings.labels)}-" if settings.labels else ""
    return labels + ("retry-" if settings.retries else "") + IMPLEMENTATION


def pods(run: Any, task: str, settings: ComponentSettings) -> list[str]:
    """Names that the task's pod may have, that of the last try first. Empty as long as it has none."""
    details = (run.run_details and run.run_details.task_details) or []
    children = [
        child.pod_name
        for one in details
        if one.display_name == task
        for child in one.child_tasks or ()
        if child.pod_name
    ]
    if not children:
        return []
    workflow = children[0].rpartition("-")[0]
    node = f"{workflow}.root.{task}.executor"
    tries = settings.retries.count if settings.retries else None
    names = [node] if tries is None else [f"{node}({number})" for number in range(tries, -1, -1)]
    return [f"{workflow}-{template(settings)}-{fnv1a(name)}" for name in names]


def log(server: Connection, run: Any, task: str, settings: ComponentSettings, namespace: str) -> str:
    """The text. Raises RunError where the task has no pod, or the server cannot read it."""
    names = pods(run, task, settings)
    if not names:
        raise RunError(f"{task} has no pod in the run {run.display_name}: it has not begun, or its result was cached")
    for name in names:
        found = server.text("read the log", PATH, run_id=run.run_id, node_id=name)
        if not found.startswith(_FAULT):
            return found
    raise RunError(
        f"the server cannot read the log of {task} in the run {run.display_name}: its pod is gone, and Kubeflow has"
        " no archive of logs, or it has not begun to write\n"
        f"  with access to the cluster: kubectl logs -n {namespace} -c main {names[0]}"
    )
