"""Argo's controller, as far as Kubeflow's workflows need one: follows the graphs, fills in the templates, runs pods.

Argo(workflow, kubernetes, programs, addresses).run()

The workflow is one that has Kubeflow's defaults in it (`Server.executed`), so nearly every node is one that is tried
again: `wf(0).root(0).trainer(0).executor(0)` is the first pod of trainer. A pod that was deleted ends as Error and is
tried again; one whose container failed ends as Failed, and is not, unless its template's policy says so.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import json
import re
from collections.abc import Callable, Mapping
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
TRIED_AGAIN = {"OnFailure": ("Failed",), "OnError": ("Error",), "Always": ("Failed", "Error")}
"""Argo's policies to the phases after which a node is tried again; OnFailure where a template says none."""
KILLED = 137
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


class EndedError(Exception):
    """A node that did not end well. `phase`: Argo's, Failed or Error."""

    def __init__(self, phase: str, message: str, log: str) -> None:
        super().__init__(message)
        self.phase, self.log = phase, log


@dataclass
class Argo:
    """`services`: options of the driver to what stands there for the names of services that a cluster would know;
    `stops`: before the first pod of a component, with ReachedError. `pods`: the last of each task, by the names of
    the tasks and of their drivers; `nodes`: what Argo tells of the workflow's nodes, by their names. `on_exit`: called
    before the exit hook of a task starts.
    """

    workflow: Any
    kubernetes: Kubernetes
    programs: Programs
    services: Mapping[str, str]
    stops: bool = False
    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    on_exit: Callable[[], None] = lambda: None

    def run(self) -> None:
        """Run the workflow to its end. AssertionError at a pod that failed, with its log."""
        spec = self.workflow["spec"]
        self._templates = {template["name"]: template for template in spec["templates"]}
        given = {one["name"]: one["value"] for one in spec["arguments"]["parameters"]}
        self._known = {f"workflow.parameters.{name}": value for name, value in given.items()}
        self._known["workflow.name"] = self.name
        self._known["workflow.creationTimestamp"] = "2026-01-02T03:04:05Z"
        try:
            self._template(spec["entrypoint"], {}, self.name)
        except EndedError as ended:
            raise AssertionError(f"{ended}\n{ended.log[-6000:]}") from ended

    @property
    def name(self) -> str:
        return str(self.workflow["metadata"]["name"])

    @property
    def status(self) -> dict[str, Any]:
        """The workflow's, as Argo writes it."""
        root = self.nodes[self.name]
        times = {name: value for name, value in root.items() if name in ("startedAt", "finishedAt")}
        return {"phase": root["phase"], **times, "nodes": {one["id"]: one for one in self.nodes.values()}}

    def _template(self, name: str, arguments: Values, node: str, parent: str = "") -> Values:
        template = self._templates[name]
        defaults = {one["name"]: one["default"] for one in _parameters(template["inputs"]) if "default" in one}
        known = {**self._known, **_named("inputs.parameters", {**defaults, **arguments})}
        again = template.get("retryStrategy")
        if again is None:
            return self._once(template, known, node, parent)
        self._begin(node, "Retry", template, parent)
        tries = 1 + int(_filled(str(again["limit"]), known))
        phases = TRIED_AGAIN[again.get("retryPolicy") or "OnFailure"]
        for number in range(tries):
            try:
                values = self._once(template, {**known, "retries": str(number)}, f"{node}({number})", node)
            except EndedError as ended:
                if ended.phase not in phases or number == tries - 1:
                    self._end(node, ended.phase, str(ended))
                    raise
            else:
                self._end(node, "Succeeded", outputs=self.nodes[f"{node}({number})"].get("outputs"))
                return values
        raise AssertionError(node)

    def _once(self, template: Any, known: Values, node: str, parent: str) -> Values:
        self._begin(node, "DAG" if "dag" in template else "Pod", template, parent)
        try:
            values = self._graph(template, known, node) if "dag" in template else self._pod(template, known, node)
        except EndedError as ended:
            self._end(node, ended.phase, str(ended))
            raise
        reported = [{"name": name, "value": value} for name, value in values.items()]
        self._end(node, "Succeeded", outputs={"parameters": reported} if reported else None)
        return values

    def _begin(self, node: str, kind: str, template: Any, parent: str) -> None:
        shown = node if node == self.name else re.split(r"\.(?=[^.]*$)", node)[-1]
        self.nodes[node] = {
            "id": node_id(self.name, node),
            "name": node,
            "displayName": shown,
            "type": kind,
            "templateName": template["name"],
            "phase": "Running",
            "startedAt": _now(),
            "children": [],
        }
        if parent:
            self.nodes[parent]["children"].append(node_id(self.name, node))

    def _end(self, node: str, phase: str, message: str = "", outputs: Any = None) -> None:
        reported = {"message": message} if message else {}
        self.nodes[node].update({"phase": phase, "finishedAt": _now(), **reported})
        if outputs:
            self.nodes[node]["outputs"] = outputs

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
                    if "hooks" in tasks[name]:
                        self._exit(tasks[name], known, f"{node}.{name}")
                    known.update(_named(f"tasks.{name}.outputs.parameters", future.result()))
                    order.done(name)
        return {}

    def _exit(self, task: Any, known: Values, node: str) -> None:
        """Run the exit hook of a task that ended, however it did. What becomes of the hook changes nothing."""
        hook = task["hooks"]["exit"]
        self.on_exit()
        arguments = {one["name"]: _filled(str(one["value"]), known) for one in _parameters(hook["arguments"])}
        with contextlib.suppress(EndedError):
            self._template(hook["template"], arguments, f"{node}.onExit", node)

    def _task(self, task: Any, known: Values, of: str) -> Values:
        node = f"{of}.{task['name']}"
        left, _, right = _filled(task.get("when", "yes != no"), known).partition(" != ")
        if left == right:
            self._begin(node, "Skipped", {"name": task["template"]}, of)
            self._end(node, "Skipped", f"when '{left} != {right}' evaluated false")
            return {}
        arguments = {one["name"]: _filled(str(one["value"]), known) for one in _parameters(task.get("arguments", {}))}
        return self._template(task["template"], arguments, node, of)

    def _pod(self, template: Any, known: Values, node: str) -> Values:
        paths = {one["name"]: one["valueFrom"] for one in _parameters(template["outputs"])}
        known = {**known, **{f"outputs.parameters.{name}.path": one["path"] for name, one in paths.items()}}
        patch = _filled(template.get("podSpecPatch", ""), known)
        if patch and self.stops:
            reported = {part: template.get(part) for part in ("metadata", "retryStrategy")}
            raise ReachedError(json.loads(_filled(json.dumps(reported), known)), json.loads(patch))
        mounts = {}
        if patch:
            container = json.loads(patch)["containers"][0]
            mounts = _mounts(json.loads(patch))
        else:
            container = {**template["container"], "args": self._resolved(template["container"]["args"], known)}
            container["command"] = [str(self.programs.driver)]
        name = f"{self.name}-{template['name']}-{argos_hash(node)}"
        pod = self.kubernetes.run(
            name,
            [*container["command"], *container["args"]],
            {one["name"]: self._value(one) for one in container.get("env", []) if not _of_the_pod(one)},
            self.programs.launcher,
            mounts,
        )
        self.pods[task_of(node)] = pod
        if pod.deleted:
            raise EndedError("Error", "pod deleted", pod.log)
        if pod.code:
            reason = "OOMKilled" if pod.code == KILLED else "Error"
            raise EndedError("Failed", f"{task_of(node)}: main: {reason} (exit code {pod.code})", pod.log)
        return {name: pod.read(one["path"]) or one.get("default", "") for name, one in paths.items()}

    def _resolved(self, arguments: list[str], known: Values) -> list[str]:
        filled = [_filled(argument, known) for argument in arguments]
        return [self.services.get(option, value) for option, value in zip(["", *filled], filled, strict=False)]

    def _value(self, variable: Any) -> str:
        if "valueFrom" in variable:
            of = variable["valueFrom"]["secretKeyRef"]
            return self.kubernetes.secret(of["name"], of["key"])
        return str(variable.get("value", ""))


def argos_hash(text: str) -> int:
    """Argo's hash of a node's name (Go's hash/fnv, New32a)."""
    return functools.reduce(lambda found, byte: ((found ^ byte) * 16777619) & 0xFFFFFFFF, text.encode(), 2166136261)


def node_id(workflow: str, node: str) -> str:
    """Argo's id of a node."""
    return node if node == workflow else f"{workflow}-{argos_hash(node)}"


def task_of(node: str) -> str:
    """`trainer` of `wf(0).root(0).trainer(0).executor(1)`, `trainer-driver` of `wf(0).root(0).trainer-driver(0)`."""
    names = [re.sub(r"\(\d+\)$", "", part) for part in node.split(".")]
    return names[-2] if names[-1] == EXECUTOR else names[-1]


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
