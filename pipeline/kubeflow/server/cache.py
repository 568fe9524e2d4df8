"""Which inputs decided a cache hit or miss of the tasks of a run on Kubeflow.

Kubeflow's cache key is the image, the command and arguments, the names of the volume claims, the parameters, and the
ids of the input artifacts. The first three are in the compiled pipeline, which the server stores; the rest is in the
executor input that the driver passes to the launcher. A server without ML Metadata reports the inputs of every task;
any other only those of tasks that were not cached, as a part of the run's workflow (`/apis/v1beta1/runs/<id>`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.pipeline.cache.differences import LISTING, Difference, differences, manifest_changes
from headrace.pipeline.cache.explanation import ALWAYS_RUNS, UNCHANGED, ComponentExplanation, RunExplanation
from headrace.pipeline.cache_key import KeyInput, KeyParts, flatten
from headrace.pipeline.kubeflow.document import component_of, container_of, flat_graph
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.status import run_record
from headrace.pipeline.kubeflow.server.tasks import reported_inputs
from headrace.pipeline.kubeflow.server.versions import specification_of
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status

MAX_EARLIER = 10
"""How many earlier runs a run is compared with."""
CODE = "code and libraries"
DIGESTS = ("sources", "code")
"""Settings that are digests of code."""
RUN_PARTS = 5
"""Parts of an output's URI from the pipeline on: `<pipeline root>/<pipeline>/<run>/<task>/<salt>/<output>`."""


@dataclass(frozen=True)
class _ServerRun:
    """A run, its compiled pipeline, and the executor inputs of its tasks by their names."""

    run: Any
    record: RunRecord
    tasks: Mapping[str, Any]
    specification: Mapping[str, Any]
    inputs: Mapping[str, Mapping[str, Any]]

    @property
    def name(self) -> str:
        return str(self.run.display_name)


def explain(session: Session, name: str | None) -> RunExplanation:
    """The explanation for a run by its name or id; None for the newest. Raises RunError if there is none."""
    run = _read(session, session.find(name))
    before = [one for one in session.runs(200) if one.created_at < run.run.created_at][:MAX_EARLIER]
    earlier = [_read(session, session.find(one.run_id)) for one in before]
    nodes = {node.id: node for node in run.record.nodes}
    named = {task: component_of(definition, task) for task, definition in run.tasks.items()}
    components = [_explained(task, nodes[id_], run, earlier) for task, id_ in named.items() if id_ in nodes]
    order = [node.id for node in run.record.nodes]
    return RunExplanation(session.pipeline, run.name, sorted(components, key=lambda one: order.index(one.component)))


def _read(session: Session, run: Any) -> _ServerRun:
    whole = specification_of(session.server, run)
    tasks, specification = flat_graph(whole), whole.get("pipeline_spec", whole)
    return _ServerRun(
        run, run_record(run, tasks, session.pipeline), tasks, specification, reported_inputs(session.server, run)
    )


def _explained(task: str, node: NodeRecord, run: _ServerRun, earlier: list[_ServerRun]) -> ComponentExplanation:
    if node.status in (Status.SKIPPED, Status.WAITING):
        return ComponentExplanation(node.id, "not run")
    if not run.tasks[task].get("cachingOptions", {}).get("enableCache"):
        return ComponentExplanation(node.id, "always runs", reasons=[ALWAYS_RUNS])
    if node.status is Status.CACHED:
        return ComponentExplanation(node.id, "reused", reasons=[UNCHANGED])
    parts = _parts(task, run)
    similar = [
        (differences(before, parts), before, one)
        for one in earlier
        if _succeeded(task, one)
        for before in [_parts(task, one)]
    ]
    if not similar:
        return ComponentExplanation(node.id, "ran", reasons=["no earlier run on the server has its result"])
    found, before, other = min(similar, key=lambda one: len(one[0]))
    reasons = [_reason(one, before, parts) for one in found] or [_unknown_reason(task, run)]
    return ComponentExplanation(node.id, "ran", other.name, reasons)


def _succeeded(task: str, run: _ServerRun) -> bool:
    return any(
        node.id == component_of(run.tasks[task], task) and node.status in (Status.DONE, Status.CACHED)
        for node in (run.record.nodes if task in run.tasks else [])
    )


def _unknown_reason(task: str, run: _ServerRun) -> str:
    if task not in run.inputs:
        return (
            "image, arguments, volumes and parameters are the same;"
            " the server reports no executor input, so the inputs may differ"
        )
    return "nothing in its key differs: the cache was off, or the cached result had expired"


def _parts(task: str, run: _ServerRun) -> KeyParts:
    """The parts of Kubeflow's cache key of a task, as far as the server reports them."""
    container, invocation = _container(task, run.specification)
    settings = {**flatten(invocation.get("exec_properties", {})), **_parameters(task, run)}
    settings |= {"image": container.get("image", ""), "volumes": run.tasks[task]["claims"]}
    code = {name: str(settings.pop(name, "")) for name in DIGESTS}
    executor_input = run.inputs.get(task, {}).get("inputs", {})
    producers = _producers(task, run.tasks)
    texts = {name: str(value) for name, value in executor_input.get("parameterValues", {}).items() if name in producers}
    inputs = {name: KeyInput(producers[name], "", text, text) for name, text in texts.items()}
    for name, group in executor_input.get("artifacts", {}).items():
        one = group["artifacts"][0]
        # With ML Metadata, the name is the artifact's id; without it, names may repeat, and `artifactId` is the id.
        identity = str(one.get("artifactId") or one.get("name"))
        inputs[name] = KeyInput(producers.get(name, ""), name, identity, str(one.get("uri", "")))
    code_parts = {CODE: json.dumps([invocation.get("code"), code])}
    return KeyParts("", str(invocation.get("executor", "")), settings, code_parts, {}, inputs)


def _container(task: str, specification: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The container of a task, and the invocation in its arguments."""
    container = container_of(specification, task)
    arguments = container.get("args", [])
    try:
        return container, json.loads(unpack(arguments[1]))
    except (IndexError, ValueError):
        return container, {}


def _parameters(task: str, run: _ServerRun) -> dict[str, Any]:
    """The parameters of the run that the task takes."""
    defaults = run.specification.get("root", {}).get("inputDefinitions", {}).get("parameters", {})
    given = (run.run.runtime_config and run.run.runtime_config.parameters) or {}
    taken = run.tasks[task].get("inputs", {}).get("parameters", {})
    inputs = [one["componentInputParameter"] for one in taken.values() if "componentInputParameter" in one]
    names = [name.removeprefix("pipelinechannel--") for name in inputs]
    values = {name: given.get(name, defaults[name].get("defaultValue")) for name in names if name in defaults}
    return {f"parameter {name}": int(value) if isinstance(value, float) else value for name, value in values.items()}


def _producers(task: str, tasks: Mapping[str, Any]) -> dict[str, str]:
    """Input to the component that produces it; for a task under a condition, as far as it can be inferred."""
    inputs = tasks[task].get("inputs", {})
    found = {}
    for key, one in {**inputs.get("artifacts", {}), **inputs.get("parameters", {})}.items():
        output = one.get("taskOutputArtifact") or one.get("taskOutputParameter")
        channel = one.get("componentInputArtifact") or one.get("componentInputParameter") or ""
        producer = output["producerTask"] if output else _producer_of_channel(channel, tasks)
        if producer in tasks:
            found[key] = component_of(tasks[producer], producer)
    return found


def _producer_of_channel(channel: str, tasks: Mapping[str, Any]) -> str:
    """`pipelinechannel--example-gen-examples` comes from `example-gen`."""
    name = channel.removeprefix("pipelinechannel--")
    return max((task for task in tasks if name.startswith(f"{task}-")), key=len, default="")


def _reason(difference: Difference, before: KeyParts, now: KeyParts) -> str:
    if difference.kind == "code":
        return f"{CODE} changed"
    then, here = before.inputs.get(difference.name), now.inputs.get(difference.name)
    if difference.kind != "input" or then is None or here is None:
        return str(difference)
    start = f"input {difference.name} from {here.producer}"
    found = manifest_changes(_unpacked(then.uri), _unpacked(here.uri)) if here.producer in LISTING else []
    if found:
        return f"{start}: {'; '.join(found)}"
    if not here.output:
        return f"{start}: its text changed"
    return f"{start}: made by run {_run_of(then.uri)}, now by run {_run_of(here.uri)}"


def _unpacked(argument: str) -> str:
    try:
        return unpack(argument)
    except ValueError:
        return argument


def _run_of(uri: str) -> str:
    parts = uri.split("/")
    return parts[-RUN_PARTS + 1] if len(parts) >= RUN_PARTS else uri
