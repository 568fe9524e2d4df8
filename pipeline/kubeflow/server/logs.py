"""What a component's pod wrote: from the pod while it is there, later from Argo's archive, both through the API server;
else the copy that Kubeflow's launcher left in the object store, `executor-logs-<try>` beside the task's outputs.

The API tells no pods' names. They follow from the names that Kubeflow gives to the nodes of a workflow and Argo to
their pods, `<workflow>-<template>-<FNV-1a of the node's name>`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from configs.config import PipelineConfig
from configs.errors import RunError
from pipeline.kubeflow.backends import store_options
from pipeline.kubeflow.server.connection import Connection
from pipeline.kubeflow.store import Store, open_store

PATH = "/apis/v1alpha1/runs/{run_id}/nodes/{node_id}/log"
IMPLEMENTATION = "system-container-impl"
COPY = re.compile(r"[^/]+/executor-logs(-\d+)?")
_FAULT = '{"error_message"'


def fnv1a(text: str) -> int:
    """The 32-bit hash of Fowler, Noll and Vo, variant 1a (http://www.isthe.com/chongo/tech/comp/fnv)."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 % 2**32
    return found


def template(task: Mapping[str, Any]) -> str:
    """Kubeflow's name for the template of a task's container: by what was asked of it when it was compiled."""
    labels = f"metadata-0-{len(task['labels'])}-" if task.get("labels") else ""
    return labels + ("retry-" if "retryPolicy" in task else "") + IMPLEMENTATION


def pods(run: Any, name: str, task: Mapping[str, Any]) -> list[str]:
    """Names that the pod of a task of `versions.graph` may have, that of the last try first. Empty as long as it has
    none.
    """
    details = (run.run_details and run.run_details.task_details) or []
    children = [
        child.pod_name
        for one in details
        if one.display_name == name
        for child in one.child_tasks or ()
        if child.pod_name
    ]
    if not children:
        return []
    workflow = children[0].rpartition("-")[0]
    node = ".".join((workflow, "root", *task.get("within", ()), name, "executor"))
    tries = int(task.get("retryPolicy", {}).get("maxRetryCount", 0))
    nodes = [f"{node}({number})" for number in range(tries, -1, -1)] if "retryPolicy" in task else [node]
    return [f"{workflow}-{template(task)}-{fnv1a(one)}" for one in nodes]


def log(server: Connection, run: Any, name: str, task: Mapping[str, Any], kept: Kept) -> str:
    """The text. Raises RunError where the task has no pod, or none of the places can be read."""
    names = pods(run, name, task)
    if not names:
        raise RunError(f"{name} has no pod in the run {run.display_name}: it has not begun, or its result was cached")
    for pod in names:
        found = server.text("read the log", PATH, run_id=run.run_id, node_id=pod)
        if not found.startswith(_FAULT):
            return found
    try:
        stored = kept.read(run.run_id, name)
        why = "it wrote none there yet" if stored is None else ""
    except (OSError, RunError) as error:
        stored, why = None, str(error).splitlines()[0]
    if stored is not None:
        return stored
    raise RunError(
        f"the server cannot read the log of {name} in the run {run.display_name}: its pod is gone, and Kubeflow has"
        " no archive of logs, or it has not begun to write\n"
        f"  nor is there the launcher's copy in {kept.folder(run.run_id, name)}: {why}\n"
        f"  with access to the cluster: kubectl logs -n {kept.namespace} -c main {names[0]}"
    )


@dataclass(frozen=True)
class Kept:
    """The logs in the object store. `home`: the folder of a pipeline's runs; `namespace`: of the pods."""

    store: Store
    home: str
    namespace: str

    @classmethod
    def of(cls, config: PipelineConfig, run: Any) -> Kept:
        """Those of a run, below the root that it was started with."""
        given = run.runtime_config and run.runtime_config.pipeline_root
        root = (given or config.kubeflow.pipeline_root).rstrip("/")
        home = f"{root}/{config.pipeline.name}"
        return cls(open_store(store_options(config.kubeflow)), home, config.kubeflow.namespace)

    def folder(self, run_id: str, task: str) -> str:
        """Where the outputs of a task are."""
        return f"{self.home}/{run_id}/{task}"

    def read(self, run_id: str, task: str) -> str | None:
        """The log of the last try; None if there is none. Raises OSError where the store cannot be read."""
        folder = self.folder(run_id, task)
        found = {name: time for name, time in self.store.files(folder).items() if COPY.fullmatch(name)}
        return self.store.text(f"{folder}/{max(found, key=lambda name: found[name])}") if found else None
