"""What a component's pod wrote, from wherever it can be read: the pod while it is there, Argo's archive of logs
afterwards, and the copy that Kubeflow's launcher leaves in the object store, `executor-logs-<try>` beside the task's
outputs.

The API server reads pods and the archive. In a standalone installation it may not read pods; Kubeflow's web interface
may, and so may the user's own kubeconfig, each of which is asked in turn.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import RunError, ServerError
from headrace.pipeline.kubeflow.backends import store_options
from headrace.pipeline.kubeflow.server.cluster import pod_log
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.nodes import executors, nodes_of, pod_of
from headrace.pipeline.kubeflow.server.watch import SECONDS, TIMING, Timing
from headrace.pipeline.kubeflow.store import Store, open_store

PATH = "/apis/v1alpha1/runs/{run_id}/nodes/{node_id}/log"
"""Of the API server."""
INTERFACE_PATH = "/k8s/pod/logs"
"""Of Kubeflow's web interface, which does not pass the path above on."""
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
    """The names of the pods of a task of `versions.graph`, that of the last try first. Empty as long as it has none.

    The API lists the ids of the workflow's nodes, `<workflow>-<FNV-1a of the node's name>`, as the children of its
    entries. A node that may be retried has its tries as children, `name(0)`, `name(1)` and so on; Kubeflow's stock
    configuration makes every node such a one, and others do not, so both names are looked for. A pod is called
    `<workflow>-<template>-<the same hash>`.
    """
    details = (run.run_details and run.run_details.task_details) or []  # of servers with ML Metadata
    ids = {child.pod_name for one in details for child in one.child_tasks or () if child.pod_name}
    # A group of nodes whose workflow failed to start has ids of another form; a workflow's own ends in no number.
    workflows = {found[1] for one in ids if (found := re.fullmatch(r"(.+)-\d+", one))}
    for workflow in sorted(workflows):
        nodes = [workflow, *_tries(workflow, workflow, ids)]
        for part in ("root", *task.get("within", ()), name, "executor"):
            nodes = [found for node in nodes for found in _nodes(workflow, f"{node}.{part}", ids)]
        executors = [node for node in nodes if f"{workflow}-{fnv1a(node)}" in ids]
        # With its tries among them, the node itself is no pod.
        tried = [node for node in executors if not any(other.startswith(f"{node}(") for other in executors)]
        if tried:
            return [f"{workflow}-{template(task)}-{fnv1a(node)}" for node in reversed(tried)]
    return []


def _native_pods(server: Connection, run: Any, name: str) -> list[str]:
    """The same of a run that has `tasks`. Those of the workflow come first, as the tasks name a try's pod only when the
    try has ended.
    """
    try:
        found = [pod_of(node) for task, node in executors(nodes_of(server, run.run_id)) if task == name]
    except ServerError:
        found = []
    return (found or [pod for task in run.tasks if task.display_name == name for pod in task.pods])[::-1]


def _nodes(workflow: str, node: str, ids: set[str]) -> list[str]:
    """The node of that name, and its tries."""
    return [node, *_tries(workflow, node, ids)]


def _tries(workflow: str, node: str, ids: set[str]) -> Iterator[str]:
    tries = (f"{node}({number})" for number in itertools.count())
    return itertools.takewhile(lambda name: f"{workflow}-{fnv1a(name)}" in ids, tries)


def log(server: Connection, run: Any, name: str, task: Mapping[str, Any], kept: Kept) -> str:
    """The text. Raises RunError where the task has no pod, or none of the places can be read."""
    names = pods(run, name, task) if run.tasks is None else _native_pods(server, run, name)
    if not names:
        raise RunError(f"{name} has no pod in the run {run.display_name}: it has not begun, or its result was cached")
    reasons = []
    for pod in names:
        for place, read in _places(server, run, pod, kept.namespace):
            try:
                return read()
            except (RunError, ServerError) as error:
                reasons.append(f"{place}: {str(error).splitlines()[0]}")
    try:
        stored = kept.read(run.run_id, name)
        why = "there is none yet" if stored is None else ""
    except (OSError, RunError) as error:
        stored, why = None, str(error).splitlines()[0]
    if stored is not None:
        return stored
    reasons.append(f"the launcher's copy in {kept.folder(run.run_id, name)}: {why}")
    lines = "\n  ".join(dict.fromkeys(reasons))
    raise RunError(
        f"the log of {name} in the run {run.display_name} cannot be read\n  {lines}\n"
        f"  with access to the cluster: kubectl logs -n {kept.namespace} -c main {names[0]}"
    )


def follow(
    read: Callable[[], str], ended: Callable[[], bool], tell: Callable[[str], None], timing: Timing = TIMING
) -> None:
    """Tell what is new in a log every few seconds, until its component has ended. A further try begins a log anew.

    Raises RunError if nothing can be read by then. Until then a log may be out of reach for a while: its pod has not
    begun, or is gone before the log is in the archive.
    """
    seen = ""
    while True:
        over = ended()  # asked first, so that what is read afterwards is whole
        try:
            text = read()
        except (RunError, ServerError):
            if over and not seen:
                raise
            text = seen
        tell(text.removeprefix(seen) if text.startswith(seen) else text)
        seen = text
        if over:
            return
        timing.sleep(SECONDS)


def _places(server: Connection, run: Any, pod: str, namespace: str) -> list[tuple[str, Callable[[], str]]]:
    return [
        ("the API server", lambda: _of_server(server, run.run_id, pod)),
        ("Kubeflow's interface", lambda: _of_interface(server, run.run_id, pod, namespace)),
        ("the kubeconfig of this machine", lambda: pod_log(namespace, pod, run.run_id)),
    ]


def _of_server(server: Connection, run_id: str, pod: str) -> str:
    """From the pod or the archive. It answers with 200 and an error of its own where there is neither."""
    found = server.text("read the log", PATH, run_id=run_id, node_id=pod)
    if found.startswith(_FAULT):
        raise RunError(_cause(found))
    if found.lstrip().startswith("<"):
        raise RunError("it answers with a web page")
    return found


def _of_interface(server: Connection, run_id: str, pod: str, namespace: str) -> str:
    query = {"podname": pod, "runid": run_id, "podnamespace": namespace}
    found = server.text("read the log", INTERFACE_PATH, query, again=False)
    if found.startswith(_FAULT):
        raise RunError(_cause(found))
    return found


def _cause(answer: str) -> str:
    """Why the server cannot read it: the last words of its chain of errors."""
    with contextlib.suppress(ValueError):
        message = str(json.loads(answer).get("error_message", ""))
        return message.rpartition(": ")[2] or message
    return answer[:200]


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
