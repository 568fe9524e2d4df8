"""Argo's controller, as far as Kubeflow's workflows need one: follows the graphs, fills in the templates, runs pods.

Argo(workflow, kubernetes, programs, addresses).run()
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from kfp_kubernetes import Kubernetes, Pod

AT_ONCE = 2
EXECUTOR = "executor"
"""The one task in the graph that Kubeflow puts around each launcher."""
TAG = re.compile(r"\{\{([\w.-]+)\}\}")
Values = dict[str, str]


@dataclass(frozen=True)
class Programs:
    """The release's own, built."""

    driver: Path
    launcher: Path


class ReachedError(Exception):
    """The pod of a component is to begin. `patch`: what the driver makes of it; `template`: what else Argo knows."""

    def __init__(self, template: Any, patch: Any) -> None:
        super().__init__("reached")
        self.template, self.patch = template, patch


@dataclass
class Argo:
    """`services`: options of the driver to what stands there for the names of services that a cluster would know;
    `stops`: before the first pod of a component, with ReachedError.
    """

    workflow: Any
    kubernetes: Kubernetes
    programs: Programs
    services: Mapping[str, str]
    stops: bool = False
    pods: dict[str, Pod] = field(default_factory=dict)

    def run(self) -> None:
        """Run the workflow to its end. AssertionError at a pod that failed, with its log."""
        spec = self.workflow["spec"]
        self._templates = {template["name"]: template for template in spec["templates"]}
        given = {one["name"]: one["value"] for one in spec["arguments"]["parameters"]}
        self._known = {f"workflow.parameters.{name}": value for name, value in given.items()}
        self._known["workflow.name"] = self.workflow["metadata"]["name"]
        self._known["workflow.creationTimestamp"] = "2026-01-02T03:04:05Z"
        self._template(spec["entrypoint"], {}, "")

    def _template(self, name: str, arguments: Values, node: str) -> Values:
        template = self._templates[name]
        defaults = {one["name"]: one["default"] for one in _parameters(template["inputs"]) if "default" in one}
        known = {**self._known, **_named("inputs.parameters", {**defaults, **arguments})}
        return self._graph(template, known, node) if "dag" in template else self._pod(template, known, node)

    def _graph(self, template: Any, known: Values, node: str) -> Values:
        tasks = {task["name"]: task for task in template["dag"]["tasks"]}
        order = TopologicalSorter(
            {name: re.findall(r"([\w-]+)\.Succeeded", task.get("depends", "")) for name, task in tasks.items()}
        )
        order.prepare()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            going: dict[Future[Values], str] = {}
            while order.is_active():
                for name in order.get_ready():
                    going[pool.submit(self._task, tasks[name], dict(known), node)] = name
                for future in wait(going, return_when=FIRST_COMPLETED).done:
                    name = going.pop(future)
                    known.update(_named(f"tasks.{name}.outputs.parameters", future.result()))
                    order.done(name)
        return {}

    def _task(self, task: Any, known: Values, of: str) -> Values:
        left, _, right = _filled(task.get("when", "yes != no"), known).partition(" != ")
        if left == right:
            return {}
        arguments = {one["name"]: _filled(str(one["value"]), known) for one in _parameters(task.get("arguments", {}))}
        return self._template(task["template"], arguments, of if task["name"] == EXECUTOR else task["name"])

    def _pod(self, template: Any, known: Values, node: str) -> Values:
        paths = {one["name"]: one["valueFrom"] for one in _parameters(template["outputs"])}
        known = {**known, **{f"outputs.parameters.{name}.path": one["path"] for name, one in paths.items()}}
        patch = _filled(template.get("podSpecPatch", ""), known)
        if patch and self.stops:
            told = {part: template.get(part) for part in ("metadata", "retryStrategy")}
            raise ReachedError(json.loads(_filled(json.dumps(told), known)), json.loads(patch))
        mounts = {}
        if patch:
            container = json.loads(patch)["containers"][0]
            mounts = _mounts(json.loads(patch))
        else:
            container = {**template["container"], "args": self._resolved(template["container"]["args"], known)}
            container["command"] = [str(self.programs.driver)]
        pod = self.kubernetes.run(
            node,
            [*container["command"], *container["args"]],
            {one["name"]: self._value(one) for one in container.get("env", []) if not _of_the_pod(one)},
            self.programs.launcher,
            mounts,
        )
        self.pods[node] = pod
        assert pod.code == 0, f"{node} ended with {pod.code}\n{pod.log[-6000:]}"
        return {name: pod.read(one["path"]) or one.get("default", "") for name, one in paths.items()}

    def _resolved(self, arguments: list[str], known: Values) -> list[str]:
        filled = [_filled(argument, known) for argument in arguments]
        return [self.services.get(option, value) for option, value in zip(["", *filled], filled, strict=False)]

    def _value(self, variable: Any) -> str:
        if "valueFrom" in variable:
            of = variable["valueFrom"]["secretKeyRef"]
            return self.kubernetes.secret(of["name"], of["key"])
        return str(variable.get("value", ""))


def _mounts(patch: Any) -> Values:
    """The paths of a pod's one container at which there are volumes, and the claims of these."""
    volumes = {one["name"]: one["persistentVolumeClaim"]["claimName"] for one in patch.get("volumes", [])}
    mounts = patch["containers"][0].get("volumeMounts", [])
    assert not any("subPath" in one for one in mounts), "no part of a volume can be mounted here"
    return {one["mountPath"]: volumes[one["name"]] for one in mounts}


def _of_the_pod(variable: Any) -> bool:
    return "fieldRef" in variable.get("valueFrom", {})


def _parameters(there: Any) -> list[Any]:
    return list(there.get("parameters", []))


def _named(start: str, values: Mapping[str, str]) -> Values:
    return {f"{start}.{name}": value for name, value in values.items()}


def _filled(text: str, known: Mapping[str, str]) -> str:
    return TAG.sub(lambda found: known.get(found[1], found[0]), text)
