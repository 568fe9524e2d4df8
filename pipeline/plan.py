"""Read a TFX `Pipeline` into plain nodes, in order and with the flow of artifacts, for every runner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfx.components.schema_gen.import_schema_gen import executor as import_schema_gen
from tfx.dsl.components.base import base_component, base_executor
from tfx.orchestration.pipeline import Pipeline
from tfx.types import Artifact

from headrace.common.digests import digest_text
from headrace.components.deploy.baseline import Baseline, RecordBlessing, WarmStart
from headrace.components.example_gen.spans.component import Spans
from headrace.components.trigger.component import Drift, LookForNew, RecordTraining
from headrace.components.trigger.decision import GO
from headrace.configs.schema.train import CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS
from headrace.pipeline.cache_key import flatten
from headrace.pipeline.code.digest import sources_digest, sources_of, stack_versions

UNCACHED = frozenset(
    {
        Spans.EXECUTOR_SPEC.executor_class,
        Baseline.EXECUTOR_SPEC.executor_class,
        RecordBlessing.EXECUTOR_SPEC.executor_class,
        WarmStart.EXECUTOR_SPEC.executor_class,
        LookForNew.EXECUTOR_SPEC.executor_class,
        Drift.EXECUTOR_SPEC.executor_class,
        RecordTraining.EXECUTOR_SPEC.executor_class,
        import_schema_gen.Executor,
    }
)
"""Executors whose outputs depend on state outside the pipeline, so that they run every time."""

NOT_IN_KEY = frozenset({"store", "push_record", CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS})
"""Properties, and entries of `custom_config`, that say where and how often something is stored between runs. They do
not change the outputs."""

SHORT_DIGEST = 16
"""Hexadecimal digits kept of the digest of a module's meaning, for comparison."""


@dataclass(frozen=True)
class Node:
    """One component."""

    id: str
    kind: str
    """TFX's name for this kind of component, such as `tfx.components.trainer.component.Trainer`."""
    executor: type[base_executor.BaseExecutor]
    exec_properties: Mapping[str, Any]
    inputs: Mapping[str, tuple[tuple[str, str], ...]]
    """Input key to (producer's id, output key) of each channel."""
    outputs: Mapping[str, type[Artifact]]
    upstream: tuple[str, ...]
    """Sorted ids of all nodes that must end first."""

    @property
    def cacheable(self) -> bool:
        return self.executor not in UNCACHED

    @property
    def decides(self) -> bool:
        """Whether its output `go` decides if the components downstream run."""
        return GO in self.outputs

    @property
    def digest(self) -> str:
        """A digest of everything that decides what it computes, except its inputs."""
        properties = json.dumps(_key_properties(self.exec_properties), sort_keys=True, default=str)
        versions = json.dumps(stack_versions(), sort_keys=True)
        return digest_text(_qualified(self.executor), properties, sources_digest(self.executor.__module__), versions)

    @property
    def code(self) -> str:
        """A digest of its code and of the library versions."""
        return digest_text(sources_digest(self.executor.__module__), json.dumps(stack_versions(), sort_keys=True))

    @property
    def parts(self) -> dict[str, Any]:
        """What `digest` covers, readable: `executor`, `settings` by dotted name, `sources` by module, `versions`."""
        settings = flatten(_key_properties(self.exec_properties))
        digests = {name: sources_of(value) for name, value in settings.items() if isinstance(value, str)}
        sources = [sources_of(sources_digest(self.executor.__module__)), *digests.values()]
        return {
            "executor": _qualified(self.executor),
            "settings": {name: value for name, value in settings.items() if not digests.get(name)},
            "sources": {module: meaning[:SHORT_DIGEST] for modules in sources for module, meaning in modules.items()},
            "versions": stack_versions(),
        }


def plan(pipeline: Pipeline) -> dict[str, Node]:
    """Node id to node, in topological order."""
    return {component.id: _node(component) for component in pipeline.components}


def _node(component: base_component.BaseComponent) -> Node:
    inputs = {key: ((channel.producer_component_id, channel.output_key),) for key, channel in component.inputs.items()}
    return Node(
        id=component.id,
        kind=component.type,
        executor=component.executor_spec.executor_class,
        exec_properties={key: value for key, value in component.exec_properties.items() if value is not None},
        inputs=inputs,
        outputs={key: channel.type for key, channel in component.outputs.items()},
        upstream=tuple(sorted(node.id for node in component.upstream_nodes)),
    )


def _qualified(executor: type) -> str:
    return f"{executor.__module__}.{executor.__qualname__}"


def _key_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that belong to the cache key."""
    chosen = {name: value for name, value in properties.items() if name not in NOT_IN_KEY}
    if isinstance(chosen.get("custom_config"), str):
        chosen["custom_config"] = _key_properties(json.loads(chosen["custom_config"]) or {})
    return chosen
