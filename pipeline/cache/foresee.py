"""What the next local run would reuse, and what it would run, without running it.

The components that look at the world outside (what is there to read, which model is blessed) do look, into a folder
that is removed afterwards; only so is it known what follows from them. Those that write something down do not.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfx.components.util.model_utils import is_model_blessed
from tfx.types import artifact_utils
from tfx.types.value_artifact import ValueArtifact

from headrace.components.beam_pipelines import BeamPipelines
from headrace.components.deploy.baseline import RecordBlessing
from headrace.components.deploy.registry import Registry
from headrace.components.trigger.component import Drift, RecordTraining
from headrace.components.trigger.decision import GO, NO, WHY
from headrace.configs.config import PipelineConfig
from headrace.pipeline.build import create_pipeline
from headrace.pipeline.cache.explain import LOOKS, SAME, Explained, Explanation, run_of, why
from headrace.pipeline.cache.history import Run, most_similar, runs
from headrace.pipeline.cache.parts import Input, KeyParts, key_of
from headrace.pipeline.digest import digest_path
from headrace.pipeline.execute import execute
from headrace.pipeline.folders import Folders
from headrace.pipeline.local.lock import locked
from headrace.pipeline.local.metadata import Metadata
from headrace.pipeline.local.wire import Stored
from headrace.pipeline.plan import Node, plan

WRITES = frozenset(one.EXECUTOR_SPEC.executor_class for one in (RecordBlessing, RecordTraining, Drift))
Known = dict[str, Stored]


def foresee(config: PipelineConfig) -> Explanation:
    """Of the next run. Raises RunError while another run of the pipeline goes on."""
    folders = Folders.of(config)
    nodes = plan(create_pipeline(config))
    earlier = runs(folders)
    if not folders.metadata.exists():
        found = [Explained(id_, "would run", reasons=["nothing was made yet"]) for id_ in nodes]
        return Explanation(config.pipeline.name, "", found)
    with locked(folders.home), tempfile.TemporaryDirectory() as scratch:
        metadata = Metadata(folders.metadata, config.pipeline.name, "")
        return _Foresight(config, folders, nodes, earlier, metadata, Path(scratch)).told()


class _Foresight:
    """The nodes in order. `_outputs`: of those that would give what is known already; `_stopped`: those that find no
    reason to go on, and what follows them, with why.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        config: PipelineConfig,
        folders: Folders,
        nodes: Mapping[str, Node],
        earlier: list[Run],
        metadata: Metadata,
        scratch: Path,
    ) -> None:
        self._config, self._folders, self._nodes = config, folders, nodes
        self._earlier, self._metadata, self._scratch = earlier, metadata, scratch
        self._outputs: dict[str, Known] = {}
        self._stopped: dict[str, str] = {}

    def told(self) -> Explanation:
        return Explanation(self._config.pipeline.name, "", [self._node(node) for node in self._nodes.values()])

    def _node(self, node: Node) -> Explained:
        stopped = next((self._stopped[id_] for id_ in node.upstream if id_ in self._stopped), None)
        if stopped is not None:
            self._stopped[node.id] = stopped
            return Explained(node.id, "not run", reasons=[stopped])
        unknown = sorted({producer for ((producer, _),) in node.inputs.values() if producer not in self._outputs})
        if not node.cacheable:
            return self._look(node) if not unknown else Explained(node.id, "always runs", reasons=[LOOKS])
        if unknown:
            return self._after(node, unknown)
        parts = self._parts(node)
        found = self._metadata.find(parts.key)
        if found is not None:
            self._outputs[node.id] = found
            made_in = {run_of(Path(stored.uri), self._folders) for stored in found.values()}
            return Explained(node.id, "would be reused", ", ".join(sorted(made_in)), [SAME])
        similar = most_similar(self._earlier, node.id, parts)
        run = similar.run.record.run_id if similar else ""
        return Explained(node.id, "would run", run, why(parts, similar, self._folders))

    def _after(self, node: Node, unknown: list[str]) -> Explained:
        """A component that gets new inputs; what else differs is told too."""
        told: dict[str, Any] = node.parts
        similar = most_similar(self._earlier, node.id, KeyParts(key="", **told))
        own = [one for one in similar.differences if one.kind != "input"] if similar else []
        reasons = [f"{', '.join(unknown)} would run, and give it new inputs", *map(str, own)]
        return Explained(node.id, "would run", similar.run.record.run_id if own and similar else "", reasons)

    def _look(self, node: Node) -> Explained:
        if node.executor in WRITES and not self._changes_nothing(node):
            return Explained(node.id, "always runs", reasons=["it writes down what it finds, so it is not asked"])
        folder = self._scratch / node.id
        uris = {
            key: str(folder / key / "value") if issubclass(type_, ValueArtifact) else str(folder / key)
            for key, type_ in node.outputs.items()
        }
        folder.mkdir()
        inputs = {key: [_artifact(self._outputs[producer][out])] for key, ((producer, out),) in node.inputs.items()}
        with contextlib.redirect_stdout(io.StringIO()):
            made = execute(node, inputs, uris, BeamPipelines(self._config.beam, folder))
        self._outputs[node.id] = {
            key: Stored(artifact.mlmd_artifact, artifact.artifact_type) for key, (artifact,) in made.items()
        }
        if node.decides and _text(self._outputs[node.id][GO]) == NO:
            self._stopped[node.id] = _text(self._outputs[node.id][WHY])
        return Explained(node.id, "always runs", reasons=[LOOKS])

    def _changes_nothing(self, node: Node) -> bool:
        """Whether it is a blessing that is recorded already, or none at all."""
        if node.executor is not RecordBlessing.EXECUTOR_SPEC.executor_class:
            return False
        inputs = {key: _artifact(self._outputs[producer][out]) for key, ((producer, out),) in node.inputs.items()}
        newest = Registry.read(self._folders.registry).newest
        return not is_model_blessed(inputs["blessing"]) or (newest is not None and newest.uri == inputs["model"].uri)

    def _parts(self, node: Node) -> KeyParts:
        inputs = {
            key: Input(producer, output, self._identity(producer, output), self._outputs[producer][output].uri)
            for key, ((producer, output),) in node.inputs.items()
        }
        known = {key: [one.identity] for key, one in inputs.items()}
        told: dict[str, Any] = node.parts
        return KeyParts(key=key_of(node.id, node.digest, known), **told, inputs=inputs, cacheable=node.cacheable)

    def _identity(self, producer: str, output: str) -> str:
        """As the runner has it."""
        uri = self._outputs[producer][output].uri
        if self._nodes[producer].cacheable or not Path(uri).is_relative_to(self._scratch / producer):
            return uri
        return digest_path(Path(uri))


def _text(stored: Stored) -> str:
    return Path(stored.uri).read_text(encoding="utf-8")


def _artifact(stored: Stored) -> Any:
    return artifact_utils.deserialize_artifact(stored.type, stored.artifact)
