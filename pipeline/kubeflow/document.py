"""The compiled pipeline as a document: its tasks, its name, and the few changes that the KFP SDK offers no way to make.

A condition is a task whose component is a group of tasks (a `dag`), which may hold further groups. With an exit handler
all tasks are in such a group, and beside it is the task that Kubeflow starts when the group has ended. That is not one
of ours: it has no component, so no function here lists it.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from headrace.common import yaml_text

NAME_DIGITS = 16
"""Digits of the content's SHA-256 in the name of a version."""


WHEN_ALL_ENDED = "ALL_UPSTREAM_TASKS_COMPLETED"
"""The trigger strategy of the task of an exit handler."""
ORIGIN = "HEADRACE_ORIGIN"
"""Environment variable of the Trainer's pod: what the machine that compiled notes with each model."""


@dataclass(frozen=True)
class TaskSpec:
    """A task of a compiled pipeline, with its component and its container. A group of tasks has no container."""

    name: str
    task: Mapping[str, Any]
    component: Mapping[str, Any]
    container: Mapping[str, Any]

    @property
    def after(self) -> list[str]:
        return list(self.task.get("dependentTasks", []))

    @property
    def cacheable(self) -> bool:
        return bool(self.task.get("cachingOptions", {}).get("enableCache"))

    @property
    def executor(self) -> str:
        """The label of its container."""
        return str(self.component.get("executorLabel", ""))

    @property
    def dag(self) -> Mapping[str, Any] | None:
        return self.component.get("dag")


def task_specs(pipeline: Mapping[str, Any], dag: Mapping[str, Any] | None = None) -> dict[str, TaskSpec]:
    """The tasks of a compiled pipeline, or of a group in it."""
    executors, components = pipeline["deploymentSpec"]["executors"], pipeline["components"]
    specs = {}
    for name, task in (dag or pipeline["root"]["dag"])["tasks"].items():
        if handles_exit(task):
            continue
        component = components[task["componentRef"]["name"]]
        executor = executors[component["executorLabel"]] if "executorLabel" in component else {}
        specs[name] = TaskSpec(name, task, component, executor.get("container", {}))
    return specs


def all_tasks(pipeline: Mapping[str, Any], dag: Mapping[str, Any] | None = None) -> dict[str, TaskSpec]:
    """The tasks of a compiled pipeline, or of a group in it, with each group replaced by its tasks."""
    found: dict[str, TaskSpec] = {}
    for name, spec in task_specs(pipeline, dag).items():
        found |= {name: spec} if spec.dag is None else all_tasks(pipeline, spec.dag)
    return found


def handles_exit(task: Mapping[str, Any]) -> bool:
    """Whether a task is that of an exit handler."""
    return bool(task.get("triggerPolicy", {}).get("strategy") == WHEN_ALL_ENDED)


def tasks_in(pipeline: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names and definitions of the tasks of all groups, with the groups and the task of an exit handler. The
    definitions may be edited.
    """
    graphs = [one["dag"] for one in (pipeline["root"], *pipeline["components"].values()) if "dag" in one]
    return itertools.chain.from_iterable(graph["tasks"].items() for graph in graphs)


def with_retry_limits(text: str, seconds: Mapping[str, int]) -> str:
    """The pipeline with the time limit for all tries of each task that `seconds` names.

    The SDK silently cuts the limit to one hour (`kfp/dsl/structures.py`); no server does.
    """
    if not seconds:
        return text
    documents = yaml_text.parse_all(text)
    for name, task in tasks_in(documents[0]):
        if name in seconds:
            task["retryPolicy"]["backoffMaxDuration"] = f"{seconds[name]}s"
    head = "".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    return head + yaml.safe_dump_all(documents, sort_keys=True)


def without_cache(text: str) -> str:
    """The pipeline with the cache of every task off."""
    documents = yaml_text.parse_all(text)
    for _, task in tasks_in(documents[0]):
        task["cachingOptions"] = {}
    return yaml.safe_dump_all(documents, sort_keys=True)


def version_name(pipeline: str, text: str) -> str:
    """The name of the pipeline's version with this content, whatever commit it was compiled at."""
    return f"{pipeline}-{hashlib.sha256(_without_origin(text).encode()).hexdigest()[:NAME_DIGITS]}"


def _without_origin(text: str) -> str:
    """The pipeline without what it notes with a model: that changes with each commit, and nothing that pods do."""
    if ORIGIN not in text:
        return text
    documents = yaml_text.parse_all(text)
    for executor in documents[0]["deploymentSpec"]["executors"].values():
        container = executor.get("container", {})
        if "env" in container:
            container["env"] = [one for one in container["env"] if one["name"] != ORIGIN]
    return yaml.safe_dump_all(documents, sort_keys=True)


def flat_graph(specification: Mapping[str, Any] | None) -> dict[str, Any]:
    """The tasks of a pipeline as the server stores it, with or without its Kubernetes document.

    Each group is replaced by its tasks, which then depend on all that the group depends on. Each task gets three more
    keys: `within`, the groups that it is in; `labels`, the labels of its pod; `claims`, the names of the volume claims
    that it mounts.
    """
    outer = specification or {}
    found = outer.get("pipeline_spec", outer)
    components = found.get("components", {})
    flat = _flattened(found.get("root", {}).get("dag", {}).get("tasks", {}), components, ())
    executors = outer.get("platform_spec", {}).get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {})
    for task in flat.values():
        label = components.get(task.get("componentRef", {}).get("name", ""), {}).get("executorLabel", "")
        kubernetes = executors.get("executors", {}).get(label, {})
        task["labels"] = kubernetes.get("podMetadata", {}).get("labels", {})
        task["claims"] = sorted({_claim(mount) for mount in kubernetes.get("pvcMount", ())})
    return flat


def task_name(node_id: str) -> str:
    """`ExampleGen` and `example_gen` as `example-gen`: Argo allows no other characters."""
    words = re.sub(r"(?<!^)(?=[A-Z])", "-", node_id).lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def component_of(task: Mapping[str, Any], name: str) -> str:
    """The component of a task as configs call it: `ExampleGen` for the task `example-gen`."""
    return str(task.get("taskInfo", {}).get("name", name))


def container_of(specification: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    """The container of a task of ours, in a pipeline as the server stores it; empty if there is none."""
    label = specification.get("components", {}).get(f"comp-{task}", {}).get("executorLabel", "")
    executors = specification.get("deploymentSpec", {}).get("executors", {})
    found: Mapping[str, Any] = executors.get(label, {}).get("container", {})
    return found


def _claim(mount: Mapping[str, Any]) -> str:
    """The name of the PersistentVolumeClaim."""
    named = mount.get("pvcNameParameter", {}).get("runtimeValue", {}).get("constant")
    return str(named or mount.get("constant", ""))


def _flattened(
    tasks: Mapping[str, Any], components: Mapping[str, Any], before: tuple[str, ...], within: tuple[str, ...] = ()
) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, task in tasks.items():
        if handles_exit(task):
            continue
        inner = components.get(task.get("componentRef", {}).get("name", ""), {}).get("dag")
        after = tuple(dict.fromkeys([*task.get("dependentTasks", ()), *before]))
        if inner is None:
            flat[name] = {**task, **({"dependentTasks": list(after)} if after else {}), "within": within}
        else:
            flat.update(_flattened(inner.get("tasks", {}), components, after, (*within, name)))
    return flat
