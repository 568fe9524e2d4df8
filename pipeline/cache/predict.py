"""Predict what the next local run would reuse and what it would run, without running it.

Components that depend on state outside the pipeline (the spans to read, the blessed model) do run, into a temporary
folder, as only their outputs decide what follows. Those that record something are not run.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfx.components.util.model_utils import is_infra_validated, is_model_blessed
from tfx.types import artifact_utils
from tfx.types.value_artifact import ValueArtifact

from headrace.common.digests import digest_path
from headrace.components.beam_pipelines import BeamPipelines
from headrace.components.bulk_predictor.around import PublishPredictions
from headrace.components.deploy.baseline import RecordBlessing
from headrace.components.deploy.lite_files import converted
from headrace.components.stored_models.blessed_record import Registry
from headrace.components.trigger.component import Drift, RecordTraining
from headrace.components.trigger.decision import GO, NO, WHY
from headrace.configs.config import PipelineConfig
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.cache.explain import RecordedRun, explain_miss, most_similar, run_of, runs
from headrace.pipeline.cache.explanation import ALWAYS_RUNS, UNCHANGED, ComponentExplanation, RunExplanation
from headrace.pipeline.cache_key import KeyInput, KeyParts, cache_key
from headrace.pipeline.execute import execute
from headrace.pipeline.folders import Folders, locked
from headrace.pipeline.local.light import state_outside
from headrace.pipeline.local.metadata import Metadata
from headrace.pipeline.local.wire import StoredArtifact
from headrace.pipeline.plan import Node, plan

RECORDERS = frozenset(
    one.EXECUTOR_SPEC.executor_class for one in (RecordBlessing, RecordTraining, Drift, PublishPredictions)
)
"""Executors that change files outside their outputs."""


def predict(config: PipelineConfig) -> RunExplanation:
    """Predict the next run. Raises RunError while another run of the pipeline is in progress."""
    folders = Folders.of(config)
    nodes = plan(create_pipeline(config))
    earlier = runs(folders)
    if not folders.metadata.exists():
        components = [ComponentExplanation(id_, "would run", reasons=["there is no earlier run"]) for id_ in nodes]
        return RunExplanation(config.pipeline.name, "", components)
    with locked(folders.home, "`headrace explain-cache --next`"), tempfile.TemporaryDirectory() as scratch:
        metadata = Metadata(folders.metadata, config.pipeline.name, "")
        return _Prediction(config, folders, nodes, earlier, metadata, Path(scratch)).explanation()


class _Prediction:
    """The nodes in order. `_outputs` holds the known outputs of nodes that would be reused; `_stopped` the nodes that
    would decide to end the run, and those downstream, with the reason.
    """

    def __init__(
        self,
        config: PipelineConfig,
        folders: Folders,
        nodes: Mapping[str, Node],
        earlier: list[RecordedRun],
        metadata: Metadata,
        scratch: Path,
    ) -> None:
        self._config, self._folders, self._nodes = config, folders, nodes
        self._earlier, self._metadata, self._scratch = earlier, metadata, scratch
        self._outputs: dict[str, dict[str, StoredArtifact]] = {}
        self._stopped: dict[str, str] = {}

    def explanation(self) -> RunExplanation:
        return RunExplanation(self._config.pipeline.name, "", [self._node(node) for node in self._nodes.values()])

    def _node(self, node: Node) -> ComponentExplanation:
        stopped = next((self._stopped[id_] for id_ in node.upstream if id_ in self._stopped), None)
        if stopped is not None:
            self._stopped[node.id] = stopped
            return ComponentExplanation(node.id, "not run", reasons=[stopped])
        unknown = sorted({producer for ((producer, _),) in node.inputs.values() if producer not in self._outputs})
        outside = state_outside(node.kind, node.exec_properties)
        if not node.cacheable and (unknown or outside is None):
            return ComponentExplanation(node.id, "always runs", reasons=[ALWAYS_RUNS]) if unknown else self._run(node)
        if unknown:
            return self._with_new_inputs(node, unknown)
        parts = self._parts(node, outside)
        found = self._metadata.find(parts.key)
        if found is not None:
            self._outputs[node.id] = found
            made_in = {run_of(Path(stored.uri), self._folders) for stored in found.values()}
            return ComponentExplanation(node.id, "would be reused", ", ".join(sorted(made_in)), [UNCHANGED])
        if not node.cacheable:
            return self._run(node)
        similar = most_similar(self._earlier, node.id, parts)
        run = similar.run.record.run_id if similar else ""
        return ComponentExplanation(node.id, "would run", run, explain_miss(parts, similar, self._folders))

    def _with_new_inputs(self, node: Node, unknown: list[str]) -> ComponentExplanation:
        """A component whose inputs would be new; its other differences are reported too."""
        fields: dict[str, Any] = node.parts
        similar = most_similar(self._earlier, node.id, KeyParts(key="", **fields))
        own = [one for one in similar.differences if one.kind != "input"] if similar else []
        reasons = [f"{', '.join(unknown)} would run and give it new inputs", *map(str, own)]
        run = similar.run.record.run_id if own and similar else ""
        return ComponentExplanation(node.id, "would run", run, reasons)

    def _run(self, node: Node) -> ComponentExplanation:
        """Run a component that depends on outside state, unless it would record something."""
        if node.executor in RECORDERS and not self._changes_nothing(node):
            reason = "it records what it finds, so it was not run for this prediction"
            return ComponentExplanation(node.id, "always runs", reasons=[reason])
        folder = self._scratch / node.id
        uris = {
            key: str(folder / key / "value") if issubclass(type_, ValueArtifact) else str(folder / key)
            for key, type_ in node.outputs.items()
        }
        folder.mkdir()
        inputs = {key: [_artifact(self._outputs[producer][out])] for key, ((producer, out),) in node.inputs.items()}
        with contextlib.redirect_stdout(io.StringIO()):  # what components print belongs in a log
            made = execute(node, inputs, uris, BeamPipelines(self._config.beam, folder))
        self._outputs[node.id] = {
            key: StoredArtifact(artifact.mlmd_artifact, artifact.artifact_type) for key, (artifact,) in made.items()
        }
        if node.decides and self._outputs[node.id][GO].text == NO:
            self._stopped[node.id] = self._outputs[node.id][WHY].text
        return ComponentExplanation(node.id, "always runs", reasons=[ALWAYS_RUNS])

    def _changes_nothing(self, node: Node) -> bool:
        """Whether the blessing is recorded already, or the model may not be pushed."""
        if node.executor is not RecordBlessing.EXECUTOR_SPEC.executor_class:
            return False
        inputs = {key: _artifact(self._outputs[producer][out]) for key, ((producer, out),) in node.inputs.items()}
        newest = Registry.read(self._folders.registry).newest
        refused = "canary" in inputs and not is_infra_validated(inputs["canary"])
        lite = converted(inputs["canary"].uri) if "canary" in inputs else None
        recorded = newest is not None and (newest.uri, newest.lite) == (inputs["model"].uri, lite)
        return refused or recorded or not is_model_blessed(inputs["blessing"])

    def _parts(self, node: Node, outside: str | None) -> KeyParts:
        inputs = {
            key: KeyInput(producer, output, self._identity(producer, output), self._outputs[producer][output].uri)
            for key, ((producer, output),) in node.inputs.items()
        }
        identities = {key: [one.identity] for key, one in inputs.items()}
        fields: dict[str, Any] = node.parts
        key = cache_key(node.id, node.digest, identities, outside)
        return KeyParts(key=key, **fields, inputs=inputs, cacheable=node.cacheable)

    def _identity(self, producer: str, output: str) -> str:
        """The identity that the scheduler would use."""
        uri = self._outputs[producer][output].uri
        folders = (self._scratch, self._folders.artifacts)
        made_here = any(Path(uri).is_relative_to(folder / producer) for folder in folders)
        if self._nodes[producer].cacheable or not made_here:
            return uri
        return digest_path(Path(uri))


def _artifact(stored: StoredArtifact) -> Any:
    return artifact_utils.deserialize_artifact(stored.type, stored.artifact)
