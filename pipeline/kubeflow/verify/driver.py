"""What Kubeflow's driver does before a task: find its inputs, name its outputs, look into the cache, see whether the
condition of a group of tasks holds.

After `backend/src/v2/driver` and `backend/src/v2/cacheutils` of kubeflow/pipelines 2.17.0.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from headrace.configs.errors import RunError
from headrace.pipeline.kubeflow.parameters import SCHEDULE_PLACEHOLDER
from headrace.pipeline.kubeflow.places import Places

Json = dict[str, Any]


@dataclass
class TaskRun:
    """What a task left: its artifacts as Kubeflow's metadata has them, and its output parameters."""

    artifacts: dict[str, Json] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    cached: bool = False


@dataclass(frozen=True)
class TaskSpec:
    """A task of the compiled pipeline: its own part, its component's and its container's; of a group of tasks under a
    condition, which is a task too, no container.
    """

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
        """The tasks of a group."""
        return self.component.get("dag")


def task_specs(pipeline: Mapping[str, Any], dag: Mapping[str, Any] | None = None) -> dict[str, TaskSpec]:
    """The tasks of a compiled pipeline, or of a group in it."""
    executors, components = pipeline["deploymentSpec"]["executors"], pipeline["components"]
    specs = {}
    for name, task in (dag or pipeline["root"]["dag"])["tasks"].items():
        component = components[task["componentRef"]["name"]]
        executor = executors[component["executorLabel"]] if "executorLabel" in component else {}
        specs[name] = TaskSpec(name, task, component, executor.get("container", {}))
    return specs


def all_tasks(pipeline: Mapping[str, Any], dag: Mapping[str, Any] | None = None) -> dict[str, TaskSpec]:
    """The same, with the tasks of groups in the place of the groups."""
    found: dict[str, TaskSpec] = {}
    for name, spec in task_specs(pipeline, dag).items():
        found |= {name: spec} if spec.dag is None else all_tasks(pipeline, spec.dag)
    return found


CONDITION = re.compile(r"inputs\.parameter_values\['(?P<name>[^']+)'\] != '(?P<value>[^']*)'")
"""The only form that the compiler writes here, of all those that the driver's expressions can have."""


def triggers(spec: TaskSpec, inputs: Json) -> bool:
    """Whether a task's condition holds; one without a condition always runs."""
    condition = spec.task.get("triggerPolicy", {}).get("condition")
    if not condition:
        return True
    found = CONDITION.fullmatch(condition)
    if found is None:
        raise RunError(f"{spec.name} has a condition that cannot be followed here: {condition}")
    return bool(inputs["parameterValues"][found["name"]] != found["value"])


def resolve(
    spec: TaskSpec,
    given: Mapping[str, Any],
    ended: Mapping[str, TaskRun],
    artifacts: Mapping[str, Json] | None = None,
) -> Json:
    """The `inputs` of the executor input; artifacts come without their type.

    given, artifacts: the inputs of the pipeline, or of the group that the task is in.
    """
    inputs = spec.task.get("inputs", {})
    found = {key: _artifact(one, ended, artifacts or {}) for key, one in inputs.get("artifacts", {}).items()}
    values = {key: _value(one, given, ended) for key, one in inputs.get("parameters", {}).items()}
    return {"parameterValues": values, "artifacts": found}


def _artifact(source: Mapping[str, Any], ended: Mapping[str, TaskRun], given: Mapping[str, Json]) -> Json:
    if "componentInputArtifact" in source:
        return given[source["componentInputArtifact"]]
    of = source["taskOutputArtifact"]
    return {"artifacts": [ended[of["producerTask"]].artifacts[of["outputArtifactKey"]]]}


def _value(source: Mapping[str, Any], given: Mapping[str, Any], ended: Mapping[str, TaskRun]) -> Any:
    if "taskOutputParameter" in source:
        of = source["taskOutputParameter"]
        return ended[of["producerTask"]].parameters[of["outputParameterKey"]]
    if "componentInputParameter" in source:
        return given[source["componentInputParameter"]]
    constant = source["runtimeValue"]["constant"]
    if constant == SCHEDULE_PLACEHOLDER:  # of a run that was not scheduled: when it was made
        return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return constant


def provision(spec: TaskSpec, run_root: str, salt: str) -> Json:
    """The `outputs` of the executor input, with the log that Kubeflow adds to them."""
    declared = dict(spec.component.get("outputDefinitions", {}).get("artifacts", {}))
    declared["executor-logs"] = {"artifactType": {"schemaTitle": "system.Artifact"}}
    task_root = f"{run_root}/{spec.name}/{salt}"
    return {
        "artifacts": {
            key: {"artifacts": [{"name": key, "uri": f"{task_root}/{key}", "type": one["artifactType"]}]}
            for key, one in declared.items()
        },
        "parameters": {
            key: {"outputFile": f"/tmp/kfp/outputs/{key}"}  # noqa: S108 - Kubeflow's
            for key in spec.component.get("outputDefinitions", {}).get("parameters", {})
        },
        "outputFile": str(PurePosixPath(Places().local(task_root)) / "output_metadata.json"),
    }


def fingerprint(spec: TaskSpec, inputs: Json, outputs: Json) -> str:
    """The cache key: image, arguments, parameters, and the ids of the input artifacts."""
    ids = {key: [one["name"] for one in group["artifacts"]] for key, group in inputs["artifacts"].items()}
    container = [spec.container["image"], spec.container["command"], spec.container["args"]]
    made = [sorted(outputs["artifacts"]), sorted(outputs["parameters"])]
    return json.dumps([*container, inputs["parameterValues"], ids, *made], sort_keys=True)
