"""Which components of a run were killed for memory: Argo's messages tell it, which the API's own tasks lack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.configs.errors import ServerError
from headrace.pipeline.kubeflow.server.nodes import executors, nodes_of
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.versions import specification_of

KILLED = re.compile(r"OOMKilled|exit code 137\b")
"""In Argo's message of a pod. 137 is SIGKILL, which nobody but the kernel sends to a component's container."""


def killed_for_memory(session: Session, run: Any) -> dict[str, str]:
    """The components (as configs call them) whose last pod was killed for memory, to what to do about it. Empty where
    the server tells nothing.
    """
    try:
        nodes = nodes_of(session.server, run.run_id)
    except ServerError:
        return {}
    last = {task: str(node.get("message", "")) for task, node in executors(nodes)}
    tasks = {task for task, message in last.items() if KILLED.search(message)}
    if not tasks:
        return {}
    shown = {name: task.get("taskInfo", {}).get("name", name) for name, task in session.tasks(run).items()}
    whole = specification_of(session.server, run)
    return {shown[task]: advice(shown[task], _limit(whole, task)) for task in sorted(tasks & shown.keys())}


def advice(component: str, limit: str) -> str:
    """What to do for a component that was killed for memory."""
    most = f" at its limit of {limit}" if limit else ""
    return (
        f"{component} was killed because its pod ran out of memory{most} (OOMKilled, exit code 137)\n"
        f"  give it more, such as kubeflow.components.{component}.memory_limit: {_more(limit)},"
        " and `memory` as much as it usually takes"
    )


def _more(limit: str) -> str:
    found = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", limit)
    return f"{float(found[1]) * 2:g}{found[2]}" if found else "16Gi"


def _limit(specification: Mapping[str, Any], task: str) -> str:
    found = specification.get("pipeline_spec", specification)
    label = found.get("components", {}).get(f"comp-{task}", {}).get("executorLabel", "")
    container = found.get("deploymentSpec", {}).get("executors", {}).get(label, {}).get("container", {})
    return str(container.get("resources", {}).get("resourceMemoryLimit", ""))
