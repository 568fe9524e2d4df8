"""Read a TFX `Pipeline` into plain nodes, in order and with the flow of artifacts, for every runner."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfx.components.schema_gen.import_schema_gen import executor as import_schema_gen
from tfx.dsl.components.base import base_component, base_executor
from tfx.orchestration.pipeline import Pipeline
from tfx.types import Artifact

from headrace.common.digests import digest_text
from headrace.components.bulk_predictor.around import ModelInService, PredictSpans, PublishPredictions
from headrace.components.deploy.baseline import Baseline, RecordBlessing, WarmStart
from headrace.components.gates.data_verdict import DataVerdict
from headrace.components.gates.serving import ServingLog
from headrace.components.spans.component import Spans
from headrace.components.trigger.component import Drift, LookForNew, RecordTraining
from headrace.components.trigger.decision import GO
from headrace.configs.schema.train import CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS
from headrace.pipeline.cache_key import flatten
from headrace.pipeline.code.digest import sources_digest, sources_of, stack_versions
from headrace.pipeline.code.modules import why_not_importable

UNCACHED = frozenset(
    {
        Spans.EXECUTOR_SPEC.executor_class,
        Baseline.EXECUTOR_SPEC.executor_class,
        RecordBlessing.EXECUTOR_SPEC.executor_class,
        WarmStart.EXECUTOR_SPEC.executor_class,
        LookForNew.EXECUTOR_SPEC.executor_class,
        DataVerdict.EXECUTOR_SPEC.executor_class,
        Drift.EXECUTOR_SPEC.executor_class,
        RecordTraining.EXECUTOR_SPEC.executor_class,
        ModelInService.EXECUTOR_SPEC.executor_class,
        ServingLog.EXECUTOR_SPEC.executor_class,
        PredictSpans.EXECUTOR_SPEC.executor_class,
        PublishPredictions.EXECUTOR_SPEC.executor_class,
        import_schema_gen.Executor,
    }
)
"""Executors whose outputs depend on state outside the pipeline, so that they run every time."""

NOT_IN_KEY = frozenset({"store", "push_record", CHECKPOINT_FOLDER, CHECKPOINT_SETTINGS})
"""Properties, and entries of `custom_config`, that say where and how often something is stored between runs. They do
not change the outputs."""

FUNCTION = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.[A-Za-z_]\w*")
"""A property that may name a function, such as the `run_fn` of a component of TFX; the group is the module."""
LIBRARIES = ("headrace.", "tfx.")
"""Modules whose code counts already: ours in the properties, TFX's by its version."""

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
    modules: tuple[str, ...] = ()
    """The modules of the user's that it uses, besides that of its executor."""

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
        return digest_text(_qualified(self.executor), properties, self._sources, versions)

    @property
    def code(self) -> str:
        """A digest of its code and of the library versions."""
        return digest_text(self._sources, json.dumps(stack_versions(), sort_keys=True))

    @property
    def parts(self) -> dict[str, Any]:
        """What `digest` covers, readable: `executor`, `settings` by dotted name, `sources` by module, `versions`."""
        settings = flatten(_key_properties(self.exec_properties))
        digests = {name: sources_of(value) for name, value in settings.items() if isinstance(value, str)}
        sources = [sources_of(self._sources), *digests.values()]
        return {
            "executor": _qualified(self.executor),
            "settings": {name: value for name, value in settings.items() if not digests.get(name)},
            "sources": {module: meaning[:SHORT_DIGEST] for modules in sources for module, meaning in modules.items()},
            "versions": stack_versions(),
        }

    @property
    def _sources(self) -> str:
        return sources_digest(self.executor.__module__, *self.modules)


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
        modules=tuple(sorted({*_modules(component)})),
    )


def _modules(component: base_component.BaseComponent) -> Iterator[str]:
    """The modules of the user's that hold the types of its outputs, and the functions that its properties name."""
    for channel in component.outputs.values():
        if not channel.type.__module__.startswith(LIBRARIES):
            yield channel.type.__module__
    for value in component.exec_properties.values():
        named = FUNCTION.fullmatch(value) if isinstance(value, str) else None
        if named and not value.startswith(LIBRARIES) and why_not_importable(value) is None:
            yield named[1]


def _qualified(executor: type) -> str:
    return f"{executor.__module__}.{executor.__qualname__}"


def _key_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that belong to the cache key."""
    chosen = {name: value for name, value in properties.items() if name not in NOT_IN_KEY}
    if isinstance(chosen.get("custom_config"), str):
        chosen["custom_config"] = _key_properties(json.loads(chosen["custom_config"]) or {})
    return chosen
