"""What Kubeflow's driver does before a task: resolve its inputs, name its outputs, compute its cache key, and evaluate
the condition of a group of tasks.

Follows `backend/src/v2/driver` and `backend/src/v2/cacheutils` of kubeflow/pipelines 2.17.0.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.document import TaskSpec
from headrace.pipeline.kubeflow.pod.parameters import SCHEDULE_PLACEHOLDER
from headrace.pipeline.kubeflow.pod.paths import PodPaths

Json = dict[str, Any]


@dataclass
class TaskRun:
    """The result of a task: its artifacts as Kubeflow's metadata has them, and its output parameters."""

    artifacts: dict[str, Json] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    cached: bool = False


CONDITION = re.compile(r"inputs\.parameter_values\['(?P<name>[^']+)'\] != '(?P<value>[^']*)'")
"""The only form that our compiler writes. The driver's expressions have many more."""


def condition_holds(spec: TaskSpec, inputs: Json) -> bool:
    """Whether a task runs: its condition holds, or it has none."""
    condition = spec.task.get("triggerPolicy", {}).get("condition")
    if not condition:
        return True
    found = CONDITION.fullmatch(condition)
    if found is None:
        raise RunError(f"{spec.name} has a condition that cannot be evaluated here: {condition}")
    return bool(inputs["parameterValues"][found["name"]] != found["value"])


def resolve(
    spec: TaskSpec,
    given: Mapping[str, Any],
    ended: Mapping[str, TaskRun],
    artifacts: Mapping[str, Json] | None = None,
) -> Json:
    """The `inputs` of the executor input, with artifacts without their types.

    given, artifacts: the inputs of the pipeline, or of the group that contains the task; ended: tasks that have run.
    """
    inputs = spec.task.get("inputs", {})
    found = {key: _artifact(one, ended, artifacts or {}) for key, one in inputs.get("artifacts", {}).items()}
    values = {key: _value(one, given, ended) for key, one in inputs.get("parameters", {}).items()}
    return {"parameterValues": values, "artifacts": found}


def _artifact(source: Mapping[str, Any], ended: Mapping[str, TaskRun], given: Mapping[str, Json]) -> Json:
    if "componentInputArtifact" in source:
        return given[source["componentInputArtifact"]]
    output = source["taskOutputArtifact"]
    return {"artifacts": [ended[output["producerTask"]].artifacts[output["outputArtifactKey"]]]}


def _value(source: Mapping[str, Any], given: Mapping[str, Any], ended: Mapping[str, TaskRun]) -> Any:
    if "taskOutputParameter" in source:
        output = source["taskOutputParameter"]
        return ended[output["producerTask"]].parameters[output["outputParameterKey"]]
    if "componentInputParameter" in source:
        return given[source["componentInputParameter"]]
    constant = source["runtimeValue"]["constant"]
    if constant == SCHEDULE_PLACEHOLDER:  # for a run that was not scheduled: its creation time
        return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return constant


def provision(spec: TaskSpec, run_root: str, salt: str) -> Json:
    """The `outputs` of the executor input, with the log that Kubeflow adds. salt: makes the URIs of a try unique."""
    declared = dict(spec.component.get("outputDefinitions", {}).get("artifacts", {}))
    declared["executor-logs"] = {"artifactType": {"schemaTitle": "system.Artifact"}}
    task_root = f"{run_root}/{spec.name}/{salt}"
    return {
        "artifacts": {
            key: {"artifacts": [{"name": key, "uri": f"{task_root}/{key}", "type": one["artifactType"]}]}
            for key, one in declared.items()
        },
        "parameters": {
            key: {"outputFile": f"/tmp/kfp/outputs/{key}"}  # noqa: S108 - in the pod
            for key in spec.component.get("outputDefinitions", {}).get("parameters", {})
        },
        "outputFile": str(PurePosixPath(PodPaths().local(task_root)) / "output_metadata.json"),
    }


def fingerprint(spec: TaskSpec, inputs: Json, outputs: Json) -> str:
    """The cache key: image, arguments, parameters, and the ids of the input artifacts."""
    ids = {key: [one["name"] for one in group["artifacts"]] for key, group in inputs["artifacts"].items()}
    container = [spec.container["image"], spec.container["command"], spec.container["args"]]
    made = [sorted(outputs["artifacts"]), sorted(outputs["parameters"])]
    return json.dumps([*container, inputs["parameterValues"], ids, *made], sort_keys=True)
