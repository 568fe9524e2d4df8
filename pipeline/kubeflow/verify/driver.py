"""What Kubeflow's driver does before a task: find its inputs, name its outputs, look into the cache.

After `backend/src/v2/driver` and `backend/src/v2/cacheutils` of kubeflow/pipelines 2.17.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pipeline.kubeflow.places import Places

Json = dict[str, Any]


@dataclass
class TaskRun:
    """What a task left: its artifacts as Kubeflow's metadata has them, and its output parameters."""

    artifacts: dict[str, Json] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    cached: bool = False


@dataclass(frozen=True)
class TaskSpec:
    """A task of the compiled pipeline: its own part, its component's and its container's."""

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


def task_specs(pipeline: Mapping[str, Any]) -> dict[str, TaskSpec]:
    """The tasks of a compiled pipeline."""
    executors, components = pipeline["deploymentSpec"]["executors"], pipeline["components"]
    specs = {}
    for name, task in pipeline["root"]["dag"]["tasks"].items():
        component = components[task["componentRef"]["name"]]
        specs[name] = TaskSpec(name, task, component, executors[component["executorLabel"]]["container"])
    return specs


def resolve(spec: TaskSpec, given: Mapping[str, Any], ended: Mapping[str, TaskRun]) -> Json:
    """The `inputs` of the executor input; artifacts come without their type."""
    inputs = spec.task.get("inputs", {})
    artifacts = {
        key: {"artifacts": [ended[source["producerTask"]].artifacts[source["outputArtifactKey"]]]}
        for key, source in ((key, one["taskOutputArtifact"]) for key, one in inputs.get("artifacts", {}).items())
    }
    values = {key: _value(one, given, ended) for key, one in inputs.get("parameters", {}).items()}
    return {"parameterValues": values, "artifacts": artifacts}


def _value(source: Mapping[str, Any], given: Mapping[str, Any], ended: Mapping[str, TaskRun]) -> Any:
    if "taskOutputParameter" in source:
        of = source["taskOutputParameter"]
        return ended[of["producerTask"]].parameters[of["outputParameterKey"]]
    if "componentInputParameter" in source:
        return given[source["componentInputParameter"]]
    return source["runtimeValue"]["constant"]


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
