"""The nodes of a pipeline as tasks for Kubeflow: one for each component, with the invocation that its pod gets.

Properties name files and folders of the machine that compiles. The compiled pipeline has placeholders instead; the
contents of the files travel in the invocation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tfx.components.schema_gen.import_schema_gen import executor as import_schema_gen
from tfx.types import standard_artifacts
from tfx.types.value_artifact import ValueArtifact

from headrace.common.errors import ConfigError, Problem, RunError
from headrace.common.names import did_you_mean_or_list
from headrace.components.bulk_predictor.around import ModelInService
from headrace.components.bulk_predictor.artifact import Predictions
from headrace.components.deploy.baseline import Baseline, RecordBlessing, WarmStart
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.components import IDS
from headrace.configs.schema.data import placeholders
from headrace.configs.schema.kubeflow import TRAINER
from headrace.configs.schema.sources import FileSource
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.code.digest import code_digest
from headrace.pipeline.folders import Folders
from headrace.pipeline.kubeflow.document import task_name
from headrace.pipeline.kubeflow.kserve.follow import kserve_settings
from headrace.pipeline.kubeflow.pod.invocation import (
    ARTIFACT,
    REFERENCE,
    VALUE,
    Invocation,
    Port,
    class_name,
    split_uncached,
)
from headrace.pipeline.kubeflow.pod.parameters import constants, offered, takes
from headrace.pipeline.kubeflow.pod.paths import FILES, HOME, RECORD
from headrace.pipeline.kubeflow.production import serving
from headrace.pipeline.kubeflow.registration import registration
from headrace.pipeline.kubeflow.store_settings import store_options
from headrace.pipeline.plan import Node, plan
from headrace.pipeline.training_digest import feature_files

SYSTEM_TYPES = {
    standard_artifacts.Examples: "system.Dataset",
    standard_artifacts.Model: "system.Model",
    standard_artifacts.PushedModel: "system.Model",
    Predictions: "system.Dataset",
}
"""Kubeflow's types for artifacts that its interface shows in a special way; all others are `system.Artifact`."""
MAX_FILES_LENGTH = 60_000
"""Characters of all files together that travel with the pipeline, in the arguments of pods."""

_POINTERS = tuple(one.EXECUTOR_SPEC.executor_class for one in (Baseline, WarmStart, RecordBlessing, ModelInService))
"""Executors whose output, apart from texts, is a model of an earlier run."""


@dataclass(frozen=True)
class ComponentTask:
    """One component. inputs: key to the producer's task and output; after: the tasks that must end first."""

    name: str
    invocation: Invocation
    inputs: Mapping[str, tuple[str, str]]
    parameters: tuple[str, ...]
    after: tuple[str, ...]
    cacheable: bool
    constants: Mapping[str, str] = field(default_factory=dict)
    decides: bool = False
    """Whether its output `go` decides if the tasks after it run."""
    code: str = ""
    """Of the Trainer: a digest of what the modules of it and of the components before it do."""
    uncached: Mapping[str, Any] = field(default_factory=dict)
    """Settings that its pod gets and its cache key must not contain."""

    def artifact_inputs(self) -> dict[str, str]:
        """The inputs that are artifacts: key to Kubeflow's type."""
        return {key: _system_type(port) for key, port in self.invocation.inputs.items() if port.how == ARTIFACT}

    def artifact_outputs(self) -> dict[str, str]:
        """The outputs that are artifacts: key to Kubeflow's type."""
        outputs = self.invocation.outputs
        return {
            key: "system.Artifact" if key == RECORD else _system_type(outputs[key])
            for key in self.invocation.artifact_outputs
        }

    def text_inputs(self) -> list[str]:
        return [key for key, port in self.invocation.inputs.items() if port.how != ARTIFACT]

    def text_outputs(self) -> list[str]:
        return [key for key, port in self.invocation.outputs.items() if port.how != ARTIFACT]


class PodFolders(Folders):
    """The folders of a pipeline in any pod: below HOME, pushed models and predictions too, unless the config gives an
    absolute path.
    """

    def pushed(self, directory: str) -> Path:
        return self.home / directory

    def predictions(self, output: str) -> Path:
        return self.home / output


def component_tasks(config: PipelineConfig) -> list[ComponentTask]:
    """The tasks, each after those that it depends on.

    Raises what `create_pipeline` raises, and ConfigError if settings or names do not fit the components that
    `pipeline.extend` adds.
    """
    nodes = plan(create_pipeline(config, PodFolders(Path(HOME))))
    _check_extension(config, nodes)
    files = _named_files(config)
    ports = {id_: _outputs(node) for id_, node in nodes.items()}
    tasks = [_task(node, config, files, ports) for node in nodes.values()]
    return [replace(one, code=_code_of(nodes)) if one.invocation.id == TRAINER else one for one in tasks]


def _check_extension(config: PipelineConfig, nodes: Mapping[str, Node]) -> None:
    if config.pipeline.extend is None:
        return
    ids: dict[str, str] = {}
    for id_ in nodes:
        if (other := ids.setdefault(task_name(id_), id_)) != id_:
            what = f"{other} and {id_} would both be the task {task_name(id_)}; give one of them another id"
            raise ConfigError(Problem("pipeline.extend", f"{config.pipeline.extend}: {what}"))
    for name in config.kubeflow.components:
        if name not in IDS and name not in nodes:
            known = did_you_mean_or_list(name, nodes, "the components are")
            raise ConfigError(Problem(f"kubeflow.components.{name}", f"there is no component {name}{known}"))


def _code_of(nodes: Mapping[str, Node]) -> str:
    """The digest of code that `headrace lineage` shows of a local run (`headrace.pipeline.models.origin`)."""
    reached, waiting = set[str](), [TRAINER]
    while waiting:
        if (node := waiting.pop()) not in reached:
            reached.add(node)
            waiting += nodes[node].upstream
    return code_digest(one for node in reached for one in nodes[node].parts["sources"].items())


def _task(
    node: Node, config: PipelineConfig, files: Mapping[str, str], ports: Mapping[str, Mapping[str, Port]]
) -> ComponentTask:
    producers = {key: channel for key, (channel,) in node.inputs.items()}
    settings = config.kubeflow
    cached, uncached = split_uncached(_with_useful_store(node.exec_properties, config))
    properties, contents = _with_placeholders(cached, files)
    invocation = Invocation(
        id=node.id,
        kind=node.kind,
        executor=class_name(node.executor),
        exec_properties=properties,
        inputs={key: ports[producer][output] for key, (producer, output) in producers.items()},
        outputs=ports[node.id],
        beam=config.beam.model_dump(mode="json"),
        storage=settings.storage,
        mount=settings.volume.path if settings.volume else "",
        store=store_options(settings),
        files=contents,
        code=node.code,
        registration=registration(config) if node.id == "Pusher" else {},
        kserve=kserve_settings(config) if node.id == "Pusher" else {},
        serving=serving(config) if node.id == "Pusher" else {},
    )
    return ComponentTask(
        name=task_name(node.id),
        invocation=invocation,
        inputs={key: (task_name(producer), output) for key, (producer, output) in producers.items()},
        parameters=tuple(name for name in offered(config) if takes(config, node.id, name)),
        after=tuple(map(task_name, node.upstream)),
        cacheable=_is_cacheable(node, config),
        constants=constants(config, node.id),
        decides=node.decides,
        uncached=uncached,
    )


def _is_cacheable(node: Node, config: PipelineConfig) -> bool:
    """Whether Kubeflow may reuse its outputs. It does not look at them, so those of a Canary that may have been without
    its server are never reused.
    """
    server = config.canary.server if config.canary else None
    if node.id == "Canary" and server is not None and server.on_unreachable == "warn":
        return False
    return node.cacheable or node.executor is import_schema_gen.Executor


def _with_useful_store(properties: Mapping[str, Any], config: PipelineConfig) -> Mapping[str, Any]:
    """The properties without the folder of cached spans if pods would find nothing in it.

    Only data in spans is cached in the object store; on a shared volume the folder itself persists.
    """
    source = config.data.source
    in_spans = isinstance(source, FileSource) and placeholders(source.patterns)
    useful = "store" not in properties or in_spans or config.kubeflow.storage == "reference"
    return properties if useful else {**properties, "store": ""}


def _named_files(config: PipelineConfig) -> dict[str, str]:
    """Path to content of the files that the config names: the schema and those of features."""
    named = [config.data.schema_file, *feature_files(config)]
    return {path: Path(path).read_text(encoding="utf-8") for path in named if path is not None}


def _with_placeholders(
    properties: Mapping[str, Any], files: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The properties with placeholders for the files that they name, and the contents of those files.

    Raises RunError if the contents are too long to travel.
    """
    contents: dict[str, str] = {}
    changed = dict(properties)
    for number, (path, content) in enumerate(sorted(files.items())):
        name = f"{number}-{Path(path).name}"
        # In a property that is JSON, the path is a whole string: between quotes, which may be escaped themselves.
        pattern = re.compile(rf'(?<=")(?:{re.escape(path)}|{re.escape(str(Path(path).absolute()))})(?=\\*")')
        for key, value in changed.items():
            if isinstance(value, str):
                whole = value in (path, str(Path(path).absolute()))
                new = f"{FILES}/{name}" if whole else pattern.sub(f"{FILES}/{name}", value)
                changed[key] = new
                if new != value:
                    contents[name] = content
    if sum(map(len, contents.values())) > MAX_FILES_LENGTH:
        raise RunError(
            f"{', '.join(files)}: together too long to travel with the pipeline (at most {MAX_FILES_LENGTH:,}"
            " characters).\n"
            "  Name a path in the config that every pod has, on a volume or in the image."
        )
    return changed, contents


def _outputs(node: Node) -> dict[str, Port]:
    return {key: Port(class_name(type_), _how(node, type_)) for key, type_ in node.outputs.items()}


def _how(node: Node, type_: type) -> str:
    if issubclass(type_, ValueArtifact):
        return VALUE
    return REFERENCE if node.executor in _POINTERS else ARTIFACT


def _system_type(port: Port) -> str:
    return next((name for type_, name in SYSTEM_TYPES.items() if class_name(type_) == port.type), "system.Artifact")
