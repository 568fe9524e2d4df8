"""A pipeline's nodes as tasks for Kubeflow: one for each component, with what its pod is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfx.components.schema_gen.import_schema_gen import executor as import_schema_gen
from tfx.types import standard_artifacts

from headrace.components.baseline import Baseline, RecordBlessing
from headrace.components.warm_start import WarmStart
from headrace.configs.config import PipelineConfig
from headrace.configs.sources import FileSource
from headrace.configs.span_fields import placeholders
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.kubeflow.aside import set_aside
from headrace.pipeline.kubeflow.backends import store_options
from headrace.pipeline.kubeflow.carried import named_files, pod_folders, without_paths
from headrace.pipeline.kubeflow.invocation import ARTIFACT, REFERENCE, VALUE, Invocation, Port, name_of
from headrace.pipeline.kubeflow.parameters import PARAMETERS, constants, offered
from headrace.pipeline.kubeflow.places import RECORD
from headrace.pipeline.plan import Node, plan

SYSTEM_TYPES = {
    standard_artifacts.Examples: "system.Dataset",
    standard_artifacts.Model: "system.Model",
    standard_artifacts.PushedModel: "system.Model",
}
"""Kubeflow's names for what its interface shows in a way of its own; the others are `system.Artifact`."""

_POINTERS = tuple(one.EXECUTOR_SPEC.executor_class for one in (Baseline, WarmStart, RecordBlessing))
"""Executors whose output, but for texts, is a model that was made before."""


@dataclass(frozen=True)
class Task:
    """One component. `inputs`: key to the producer's task and output; `after`: tasks that must end first."""

    name: str
    invocation: Invocation
    inputs: Mapping[str, tuple[str, str]]
    parameters: tuple[str, ...]
    after: tuple[str, ...]
    cacheable: bool
    constants: Mapping[str, str] = field(default_factory=dict)
    decides: bool = False
    """Whether its output `go` says if what follows it runs."""
    aside: Mapping[str, Any] = field(default_factory=dict)
    """What its pod is told and its cache key must not hold."""

    def artifacts_in(self) -> dict[str, str]:
        """Input artifacts: key to Kubeflow's type."""
        return {key: _system_type(port) for key, port in self.invocation.inputs.items() if port.how == ARTIFACT}

    def artifacts_out(self) -> dict[str, str]:
        """Output artifacts: key to Kubeflow's type."""
        outputs = self.invocation.outputs
        return {key: "system.Artifact" if key == RECORD else _system_type(outputs[key]) for key in self._written}

    def texts_in(self) -> list[str]:
        """Inputs that are parameters."""
        return [key for key, port in self.invocation.inputs.items() if port.how != ARTIFACT]

    def texts_out(self) -> list[str]:
        """Outputs that are parameters."""
        return [key for key, port in self.invocation.outputs.items() if port.how != ARTIFACT]

    @property
    def _written(self) -> list[str]:
        return self.invocation.written


def tasks(config: PipelineConfig) -> list[Task]:
    """The tasks, each after all that it needs. Raises what `create_pipeline` raises."""
    nodes = plan(create_pipeline(config, pod_folders()))
    files = named_files(config)
    ports = {id_: _outputs(node) for id_, node in nodes.items()}
    return [_task(node, config, files, ports) for node in nodes.values()]


def task_name(node_id: str) -> str:
    """`ExampleGen` as `example-gen`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", node_id).lower()


def _task(
    node: Node, config: PipelineConfig, files: Mapping[str, str], ports: Mapping[str, Mapping[str, Port]]
) -> Task:
    producers = {key: channel for key, (channel,) in node.inputs.items()}
    settings = config.kubeflow
    keyed, aside = set_aside(_that_keep_spans(node.exec_properties, config))
    properties, carried = without_paths(keyed, files)
    invocation = Invocation(
        id=node.id,
        kind=node.kind,
        executor=name_of(node.executor),
        exec_properties=properties,
        inputs={key: ports[producer][output] for key, (producer, output) in producers.items()},
        outputs=ports[node.id],
        beam=config.beam.model_dump(mode="json"),
        storage=settings.storage,
        mount=settings.volume.path if settings.volume else "",
        store=store_options(settings),
        files=carried,
        code=node.code,
    )
    return Task(
        name=task_name(node.id),
        invocation=invocation,
        inputs={key: (task_name(producer), output) for key, (producer, output) in producers.items()},
        parameters=tuple(name for name in offered(config) if PARAMETERS[name].component == node.id),
        after=tuple(map(task_name, node.upstream)),
        cacheable=node.cacheable or node.executor is import_schema_gen.Executor,
        constants=constants(config, node.id),
        decides=node.decides,
        aside=aside,
    )


def _that_keep_spans(properties: Mapping[str, Any], config: PipelineConfig) -> Mapping[str, Any]:
    """Without the folder of kept spans where pods would find nothing in it: only these reach into the object store."""
    source = config.data.source
    in_spans = isinstance(source, FileSource) and placeholders(source.path)
    kept = "store" not in properties or in_spans or config.kubeflow.storage == "reference"
    return properties if kept else {**properties, "store": ""}


def _outputs(node: Node) -> dict[str, Port]:
    return {key: Port(name_of(type_), _how(node, type_)) for key, type_ in node.outputs.items()}


def _how(node: Node, type_: type) -> str:
    if type_ is standard_artifacts.String:
        return VALUE
    return REFERENCE if node.executor in _POINTERS else ARTIFACT


def _system_type(port: Port) -> str:
    return next((name for type_, name in SYSTEM_TYPES.items() if name_of(type_) == port.type), "system.Artifact")
