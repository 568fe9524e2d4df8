"""Which inputs decided a hit or a miss of the tasks of a run on Kubeflow.

Kubeflow's key is the image, the command and arguments, the names of the volumes' claims, the parameters, and the ids of
the input artifacts. The first three stand in the compiled pipeline, which the server keeps; the rest in the executor
input that the driver hands to the launcher. A server without ML Metadata tells the inputs of every task; any other only
those of tasks that were not cached, as a part of the run's workflow (`/apis/v1beta1/runs/<id>`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.configs.errors import ServerError
from headrace.pipeline.cache.differences import Difference, differences
from headrace.pipeline.cache.explain import LOOKS, SAME, Explained, Explanation
from headrace.pipeline.cache.manifests import changes
from headrace.pipeline.cache.parts import Input, KeyParts, flat
from headrace.pipeline.kubeflow.argument import unpack
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.nodes import nodes_of
from headrace.pipeline.kubeflow.server.record import record
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.versions import graph, specification_of
from headrace.pipeline.local.record import NodeRecord, RunRecord, Status

MOST = 10
"""Earlier runs that are held against one."""
CODE = "code and libraries"
DIGESTS = ("sources", "code")
"""Settings that are digests of code."""
RUN_PARTS = 5
"""`<pipeline root>/<pipeline>/<run>/<task>/<salt>/<output>`: where the run is in a URI, from its end."""


@dataclass(frozen=True)
class _Run:
    """A run, what was compiled for it, and the executor inputs of its tasks by their names."""

    run: Any
    record: RunRecord
    tasks: Mapping[str, Any]
    specification: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, Any]]

    @property
    def name(self) -> str:
        return str(self.run.display_name)


def explain(session: Session, name: str | None) -> Explanation:
    """Of a run by its name or id; None: the newest. Raises RunError if there is none."""
    run = _read(session, session.run(name))
    before = [one for one in session.runs(200) if one.created_at < run.run.created_at][:MOST]
    earlier = [_read(session, session.run(one.run_id)) for one in before]
    told = {node.id: node for node in run.record.nodes}
    components = [
        _explained(task, told[_display(run.tasks, task)], run, earlier)
        for task in run.tasks
        if _display(run.tasks, task) in told
    ]
    order = [node.id for node in run.record.nodes]
    return Explanation(session.pipeline, run.name, sorted(components, key=lambda one: order.index(one.component)))


def _read(session: Session, run: Any) -> _Run:
    whole = specification_of(session.server, run)
    tasks, specification = graph(whole), whole.get("pipeline_spec", whole)
    return _Run(run, record(run, tasks, session.pipeline), tasks, specification, _inputs(session.server, run))


def _inputs(server: Connection, run: Any) -> dict[str, Mapping[str, Any]]:
    if run.task_count:
        return {task.display_name: {"inputs": task.inputs} for task in run.tasks}
    try:
        return dict(executor_inputs(server, run.run_id))
    except ServerError:
        return {}


def _display(tasks: Mapping[str, Any], task: str) -> str:
    return str(tasks[task].get("taskInfo", {}).get("name", task))


def _explained(task: str, node: NodeRecord, run: _Run, earlier: list[_Run]) -> Explained:
    if node.status in (Status.SKIPPED, Status.WAITING):
        return Explained(node.id, "not run")
    if not run.tasks[task].get("cachingOptions", {}).get("enableCache"):
        return Explained(node.id, "always runs", reasons=[LOOKS])
    if node.status is Status.CACHED:
        return Explained(node.id, "reused", reasons=[SAME])
    parts = _parts(task, run)
    similar = [
        (differences(before, parts), before, one)
        for one in earlier
        if _succeeded(task, one)
        for before in [_parts(task, one)]
    ]
    if not similar:
        return Explained(node.id, "ran", reasons=["no earlier run made it, of those that the server has"])
    found, before, other = min(similar, key=lambda one: len(one[0]))
    reasons = [_told(one, before, parts) for one in found] or [_unknown(task, run)]
    return Explained(node.id, "ran", other.name, reasons)


def _succeeded(task: str, run: _Run) -> bool:
    return any(
        node.id == _display(run.tasks, task) and node.status in (Status.DONE, Status.CACHED)
        for node in (run.record.nodes if task in run.tasks else [])
    )


def _unknown(task: str, run: _Run) -> str:
    if task not in run.inputs:
        return (
            "image, arguments, volumes and parameters are the same;"
            " the server tells no executor input, so the inputs may differ"
        )
    return "nothing in its key differs: the cache was off, or what it held had expired"


def _parts(task: str, run: _Run) -> KeyParts:
    """What Kubeflow's key of a task is made of, as far as the server tells it."""
    container, invocation = _container(task, run.specification)
    settings = {**flat(invocation.get("exec_properties", {})), **_given(task, run)}
    settings |= {"image": container.get("image", ""), "volumes": run.tasks[task]["claims"]}
    code = {name: str(settings.pop(name, "")) for name in DIGESTS}
    told = run.inputs.get(task, {}).get("inputs", {})
    producers = _producers(task, run.tasks)
    texts = {name: str(value) for name, value in told.get("parameterValues", {}).items() if name in producers}
    inputs = {name: Input(producers[name], "", text, text) for name, text in texts.items()}
    for name, group in told.get("artifacts", {}).items():
        one = group["artifacts"][0]
        # ML Metadata's id is the name there; without it names may be the same, and ids are beside them.
        identity = str(one.get("artifactId") or one.get("name"))
        inputs[name] = Input(producers.get(name, ""), name, identity, str(one.get("uri", "")))
    made_by = {CODE: json.dumps([invocation.get("code"), code])}
    return KeyParts("", str(invocation.get("executor", "")), settings, made_by, {}, inputs)


def _container(task: str, specification: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The container of a task, and the invocation in its arguments."""
    component = specification.get("components", {}).get(f"comp-{task}", {})
    executors = specification.get("deploymentSpec", {}).get("executors", {})
    container = executors.get(component.get("executorLabel", ""), {}).get("container", {})
    arguments = container.get("args", [])
    try:
        return container, json.loads(unpack(arguments[1]))
    except (IndexError, ValueError):
        return container, {}


def _given(task: str, run: _Run) -> dict[str, Any]:
    """The run's parameters that the task takes."""
    defaults = run.specification.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    given = (run.run.runtime_config and run.run.runtime_config.parameters) or {}
    taken = run.tasks[task].get("inputs", {}).get("parameters", {})
    names = (
        one["componentInputParameter"].removeprefix("pipelinechannel--") for one in taken.values() if _is_given(one)
    )
    values = {name: given.get(name, defaults[name].get("defaultValue")) for name in names if name in defaults}
    return {f"parameter {name}": int(value) if isinstance(value, float) else value for name, value in values.items()}


def _is_given(source: Mapping[str, Any]) -> bool:
    return "componentInputParameter" in source


def _producers(task: str, tasks: Mapping[str, Any]) -> dict[str, str]:
    """Input to the component that makes it; of a task under a condition, as far as it is told."""
    inputs = tasks[task].get("inputs", {})
    found = {}
    for key, one in {**inputs.get("artifacts", {}), **inputs.get("parameters", {})}.items():
        of = one.get("taskOutputArtifact") or one.get("taskOutputParameter")
        channel = one.get("componentInputArtifact") or one.get("componentInputParameter") or ""
        producer = of["producerTask"] if of else _through(channel, tasks)
        if producer in tasks:
            found[key] = _display(tasks, producer)
    return found


def _through(channel: str, tasks: Mapping[str, Any]) -> str:
    """`pipelinechannel--example-gen-examples` comes from `example-gen`."""
    name = channel.removeprefix("pipelinechannel--")
    return max((task for task in tasks if name.startswith(f"{task}-")), key=len, default="")


def _told(difference: Difference, before: KeyParts, now: KeyParts) -> str:
    if difference.kind == "code":
        return f"{CODE} changed"
    then, here = before.inputs.get(difference.name), now.inputs.get(difference.name)
    if difference.kind != "input" or then is None or here is None:
        return str(difference)
    start = f"input {difference.name} from {here.producer}"
    found = changes(_opened(then.uri), _opened(here.uri)) if here.producer == "Spans" else []
    if found:
        return f"{start}: {'; '.join(found)}"
    if not here.output:
        return f"{start}: its text changed"
    return f"{start}: of run {_run_of(then.uri)}, now of run {_run_of(here.uri)}"


def _opened(argument: str) -> str:
    try:
        return unpack(argument)
    except ValueError:
        return argument


def _run_of(uri: str) -> str:
    parts = uri.split("/")
    return parts[-RUN_PARTS + 1] if len(parts) >= RUN_PARTS else uri


def executor_inputs(server: Connection, run_id: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """By task, of those whose container ran, as far as the server kept them. Raises ServerError."""
    for node in nodes_of(server, run_id):
        outputs = {one["name"]: one.get("value", "") for one in node.get("outputs", {}).get("parameters", [])}
        found = _executor_input(outputs.get("pod-spec-patch", ""))
        name = str(node.get("displayName", ""))
        if found is not None and name.endswith("-driver"):
            yield name.removesuffix("-driver"), found


def _executor_input(patch: str) -> Mapping[str, Any] | None:
    """What the driver told the launcher: an argument in the patch of its pod."""
    try:
        (command,) = [one["command"] for one in json.loads(patch)["containers"] if "--executor_input" in one["command"]]
        found: Mapping[str, Any] = json.loads(command[command.index("--executor_input") + 1])
        return found
    except (ValueError, KeyError, TypeError, IndexError):
        return None
