"""The log of a component, from wherever it can be read: its pod while that exists, Argo's archive of logs afterwards,
or the copy that Kubeflow's launcher writes to the object store, `executor-logs-<try>` next to the task's outputs.

The API server reads pods and the archive. In a standalone installation it may not be allowed to read pods; Kubeflow's
web interface may, and so may the user's own kubeconfig. Each of them is tried in turn.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.common.errors import RunError, ServerError
from headrace.configs.config import PipelineConfig
from headrace.pipeline.kubeflow.document import component_of
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.kubeconfig import CONTAINER, read_pod_log
from headrace.pipeline.kubeflow.server.status import CLOCK, POLL_SECONDS, Clock
from headrace.pipeline.kubeflow.server.tasks import executor_nodes, workflow_nodes
from headrace.pipeline.kubeflow.store import Store, open_store
from headrace.pipeline.kubeflow.store_settings import store_options

PATH = "/apis/v1alpha1/runs/{run_id}/nodes/{node_id}/log"
"""In the API server."""
INTERFACE_PATH = "/k8s/pod/logs"
"""In Kubeflow's web interface, which does not forward the path above."""
IMPLEMENTATION = "system-container-impl"
LAUNCHER_LOG = re.compile(r"[^/]+/executor-logs(-\d+)?")
_ERROR = '{"error_message"'


@dataclass(frozen=True)
class LauncherLogs:
    """The logs in the object store. home: the folder of the pipeline's runs; namespace: that of the pods."""

    store: Store
    home: str
    namespace: str

    @classmethod
    def of(cls, config: PipelineConfig, run: Any) -> LauncherLogs:
        """The logs of a run, below the root that it was started with."""
        given = run.runtime_config and run.runtime_config.pipeline_root
        root = (given or config.kubeflow.pipeline_root).rstrip("/")
        home = f"{root}/{config.pipeline.name}"
        return cls(open_store(store_options(config.kubeflow)), home, config.kubeflow.namespace)

    def folder(self, run_id: str, task: str) -> str:
        """The URI of the outputs of a task."""
        return f"{self.home}/{run_id}/{task}"

    def read(self, run_id: str, task: str) -> str | None:
        """The log of the last try, or None if there is none. Raises OSError if the store cannot be read."""
        folder = self.folder(run_id, task)
        found = {name: time for name, time in self.store.files(folder).items() if LAUNCHER_LOG.fullmatch(name)}
        return self.store.text_if_there(f"{folder}/{max(found, key=lambda name: found[name])}") if found else None


def read_log(server: Connection, run: Any, name: str, task: Mapping[str, Any], copies: LauncherLogs) -> str:
    """The log of a task. Raises RunError if the task has no pod, or its log cannot be read anywhere."""
    component = component_of(task, name)
    names = pods(run, name, task) if run.tasks is None else _pods_of_details(server, run, name)
    if not names:
        raise RunError(
            f"{component} has no pod in the run {run.display_name}: it has not started, or its result was cached"
        )
    reasons = []
    for pod in names:
        for source, read in _sources(server, run, pod, copies.namespace):
            try:
                return read()
            except (RunError, ServerError) as error:
                reasons.append(f"{source}: {str(error).splitlines()[0]}")
    try:
        stored = copies.read(run.run_id, name)
        why = "there is none yet" if stored is None else ""
    except (OSError, RunError) as error:
        stored, why = None, str(error).splitlines()[0]
    if stored is not None:
        return stored
    reasons.append(f"the launcher's copy in {copies.folder(run.run_id, name)}: {why}")
    lines = "\n  ".join(dict.fromkeys(reasons))
    raise RunError(
        f"the log of {component} in the run {run.display_name} cannot be read\n  {lines}\n"
        f"  with access to the cluster: kubectl logs -n {copies.namespace} -c {CONTAINER} {names[0]}"
    )


def follow(
    read: Callable[[], str], ended: Callable[[], bool], write: Callable[[str], None], clock: Clock = CLOCK
) -> None:
    """Write what is new in a log every few seconds, until its component has ended. A further try starts a new log.

    Raises RunError if nothing could be read by then. Until then a log may be unreadable for a while: its pod has not
    started, or is gone before the log is in the archive.
    """
    seen = ""
    while True:
        over = ended()  # asked first, so that what is read afterwards is complete
        try:
            text = read()
        except (RunError, ServerError):
            if over and not seen:
                raise
            text = seen
        write(text.removeprefix(seen) if text.startswith(seen) else text)
        seen = text
        if over:
            return
        clock.sleep(POLL_SECONDS)


def fnv1a(text: str) -> int:
    """The 32-bit hash of Fowler, Noll and Vo, variant 1a (http://www.isthe.com/chongo/tech/comp/fnv)."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = (found ^ byte) * 0x01000193 % 2**32
    return found


def template(task: Mapping[str, Any]) -> str:
    """Kubeflow's name for the template of a task's container, which depends on its compiled settings."""
    labels = f"metadata-0-{len(task['labels'])}-" if task.get("labels") else ""
    return labels + ("retry-" if "retryPolicy" in task else "") + IMPLEMENTATION


def pods(run: Any, name: str, task: Mapping[str, Any]) -> list[str]:
    """The names of the pods of a task, the last try first; empty as long as it has none. task: of `flat_graph`.

    The API lists the ids of the workflow's nodes, `<workflow>-<FNV-1a of the node's name>`, as the children of its
    entries. A node that may be retried has its tries as children, `name(0)`, `name(1)` and so on. Kubeflow's stock
    configuration makes every node retryable and others do not, so both names are searched for. A pod is called
    `<workflow>-<template>-<the same hash>`.
    """
    details = (run.run_details and run.run_details.task_details) or []  # from servers with ML Metadata
    ids = {child.pod_name for one in details for child in one.child_tasks or () if child.pod_name}
    # A group of nodes whose workflow failed to start has ids of another form; a workflow's own ends in no number.
    workflows = {found[1] for one in ids if (found := re.fullmatch(r"(.+)-\d+", one))}
    for workflow in sorted(workflows):
        nodes = [workflow, *_tries(workflow, workflow, ids)]
        for part in ("root", *task.get("within", ()), name, "executor"):
            names = [f"{node}.{part}" for node in nodes]
            nodes = [found for one in names for found in (one, *_tries(workflow, one, ids))]
        executors = [node for node in nodes if f"{workflow}-{fnv1a(node)}" in ids]
        # If its tries are among them, the node itself is not a pod.
        tried = [node for node in executors if not any(other.startswith(f"{node}(") for other in executors)]
        if tried:
            return [f"{workflow}-{template(task)}-{fnv1a(node)}" for node in reversed(tried)]
    return []


def _tries(workflow: str, node: str, ids: set[str]) -> Iterator[str]:
    tries = (f"{node}({number})" for number in itertools.count())
    return itertools.takewhile(lambda name: f"{workflow}-{fnv1a(name)}" in ids, tries)


def _pods_of_details(server: Connection, run: Any, name: str) -> list[str]:
    """The same for a run with `tasks`. The pods of the workflow are preferred, because the tasks name the pod of a try
    only when the try has ended.
    """
    try:
        found = [_pod_of(node) for task, node in executor_nodes(workflow_nodes(server, run.run_id)) if task == name]
    except ServerError:
        found = []
    return (found or [pod for task in run.tasks if task.display_name == name for pod in task.pods])[::-1]


def _pod_of(node: Mapping[str, Any]) -> str:
    """The name of a node's pod: `<workflow>-<template>-<hash>`, where the node is `<workflow>-<hash>`."""
    workflow, _, hashed = str(node.get("id", "")).rpartition("-")
    return f"{workflow}-{node.get('templateName', '')}-{hashed}"


def _sources(server: Connection, run: Any, pod: str, namespace: str) -> list[tuple[str, Callable[[], str]]]:
    return [
        ("the API server", lambda: _from_server(server, run.run_id, pod)),
        ("Kubeflow's interface", lambda: _from_interface(server, run.run_id, pod, namespace)),
        ("the kubeconfig of this machine", lambda: read_pod_log(namespace, pod, run.run_id)),
    ]


def _from_server(server: Connection, run_id: str, pod: str) -> str:
    """From the pod or the archive. If it has neither, the server answers with 200 and an error of its own."""
    found = server.text("read the log", PATH, run_id=run_id, node_id=pod)
    if found.startswith(_ERROR):
        raise RunError(_cause(found))
    if found.lstrip().startswith("<"):
        raise RunError("it answers with a web page")
    return found


def _from_interface(server: Connection, run_id: str, pod: str, namespace: str) -> str:
    query = {"podname": pod, "runid": run_id, "podnamespace": namespace}
    found = server.text("read the log", INTERFACE_PATH, query, retry=False)
    if found.startswith(_ERROR):
        raise RunError(_cause(found))
    return found


def _cause(answer: str) -> str:
    """Why the server cannot read it: the last part of its chain of errors."""
    with contextlib.suppress(ValueError):
        message = str(json.loads(answer).get("error_message", ""))
        return message.rpartition(": ")[2] or message
    return answer[:200]
