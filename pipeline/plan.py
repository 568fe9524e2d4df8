"""What a TFX `Pipeline` asks for, read off once, for every runner alike: nodes in order, and how artifacts flow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfx.components.schema_gen.import_schema_gen import executor as import_schema_gen
from tfx.dsl.components.base import base_component, base_executor
from tfx.orchestration.pipeline import Pipeline
from tfx.types import Artifact

from headrace.components.deploy.baseline import Baseline, RecordBlessing, WarmStart
from headrace.components.example_gen.spans import Spans
from headrace.components.trigger.component import Drift, LookForNew, RecordTraining
from headrace.components.trigger.decision import GO
from headrace.configs.checkpoint import KEPT_HOW, KEPT_IN
from headrace.pipeline.cache.parts import flat
from headrace.pipeline.digest import digest_text
from headrace.pipeline.sources import sources_digest, sources_of, stack_versions

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
"""Executors that look at the world outside the pipeline, so that only running them tells what they give."""


UNKEYED = frozenset({"store", "push_record", KEPT_IN, KEPT_HOW})
"""Properties, and entries of `custom_config`, that say where something is kept between runs, and how often; nothing of
what comes out."""


MEANING = 16
"""Digits of the digest of a module's meaning that are kept to be compared."""


@dataclass(frozen=True)
class Node:
    """One component."""

    id: str
    kind: str
    """TFX's name for this kind of component, such as `tfx.components.trainer.component.Trainer`."""
    executor: type[base_executor.BaseExecutor]
    exec_properties: Mapping[str, Any]
    inputs: Mapping[str, tuple[tuple[str, str], ...]]
    """Input key to the (producer's id, output key) of each channel."""
    outputs: Mapping[str, type[Artifact]]
    upstream: tuple[str, ...]
    """Ids of all nodes that must end first, sorted."""

    @property
    def cacheable(self) -> bool:
        return self.executor not in UNCACHED

    @property
    def decides(self) -> bool:
        """Whether its output `go` says if what follows it runs."""
        return GO in self.outputs

    @property
    def digest(self) -> str:
        """Of all that decides what it computes, but for its inputs."""
        name = f"{self.executor.__module__}.{self.executor.__qualname__}"
        properties = json.dumps(_keyed(self.exec_properties), sort_keys=True, default=str)
        return digest_text(
            name, properties, sources_digest(self.executor.__module__), json.dumps(stack_versions(), sort_keys=True)
        )

    @property
    def code(self) -> str:
        """A digest of the code that it runs, and of its libraries."""
        return digest_text(sources_digest(self.executor.__module__), json.dumps(stack_versions(), sort_keys=True))

    @property
    def parts(self) -> dict[str, Any]:
        """The same in the open: `executor`, `settings` by dotted name, `sources` by module, `versions` by package."""
        settings = flat(_keyed(self.exec_properties))
        digests = {name: sources_of(value) for name, value in settings.items() if isinstance(value, str)}
        sources = [sources_of(sources_digest(self.executor.__module__)), *digests.values()]
        return {
            "executor": f"{self.executor.__module__}.{self.executor.__qualname__}",
            "settings": {name: value for name, value in settings.items() if not digests.get(name)},
            "sources": {module: meaning[:MEANING] for modules in sources for module, meaning in modules.items()},
            "versions": stack_versions(),
        }


def _keyed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that have a say in what comes out."""
    keyed = {name: value for name, value in properties.items() if name not in UNKEYED}
    if isinstance(keyed.get("custom_config"), str):
        keyed["custom_config"] = _keyed(json.loads(keyed["custom_config"]) or {})
    return keyed


def plan(pipeline: Pipeline) -> dict[str, Node]:
    """Node id to node, each after all that it needs."""
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
