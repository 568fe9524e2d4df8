"""Running one component's executor on given artifacts: all that a runner, local or in a pod, has to do for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tfx import version
from tfx.dsl.components.base import base_beam_executor, base_executor
from tfx.types import Artifact, standard_artifacts
from tfx.types.value_artifact import ValueArtifact

from headrace.components.beam_pipelines import BeamPipelines
from headrace.components.contents import check_whole, seal
from headrace.configs.errors import RunError
from headrace.pipeline.plan import Node

Artifacts = dict[str, list[Artifact]]
ROWS = "rows"
"""Custom property of Examples: JSON {split: number of examples}."""

WORKERS = re.compile(r".*\bconfigs\.errors\.\w+: (.+?) \[while running '", re.DOTALL)
"""In the text of an error that comes from Beam's workers, the traceback there: the last words in it that are ours."""


def execute(node: Node, inputs: Artifacts, output_uris: Mapping[str, str], pipelines: BeamPipelines) -> Artifacts:
    """Run `node` on `inputs`, with its outputs at the given URIs; the output artifacts with their properties.

    A Beam component prints what Beam executed. The outputs carry the checksums of their files. Raises whatever the
    executor raises; RunError if an input is damaged, or with the words of a HeadraceError that one of Beam's workers
    met.
    """
    outputs = {key: [_output(node.outputs[key], uri)] for key, uri in output_uris.items()}
    for artifacts in inputs.values():
        for artifact in artifacts:
            if not isinstance(artifact, standard_artifacts.Examples):  # their records have checksums of their own
                check_whole(artifact)
            if isinstance(artifact, ValueArtifact):
                artifact.read()
    executor = node.executor(_context(node, pipelines))
    try:
        executor.Do(inputs, outputs, dict(node.exec_properties))
    except RuntimeError as error:
        if said := WORKERS.match(str(error)):
            raise RunError(said[1]) from error
        raise
    if uses_beam(node):
        print(f"Beam: {pipelines.summary}", flush=True)
    _carry_rows(inputs, outputs)
    for key, (artifact,) in outputs.items():
        if artifact.uri == output_uris[key]:  # else it is a model that was made, and sealed, before
            seal(artifact)
    return outputs


def uses_beam(node: Node) -> bool:
    """Whether it is a Beam component."""
    return issubclass(node.executor, base_beam_executor.BaseBeamExecutor)


def _context(node: Node, pipelines: BeamPipelines) -> base_executor.BaseExecutor.Context:
    place = str(pipelines.scratch)
    own = {"tmp_dir": place, "unique_id": node.id, "stateful_working_dir": place}
    if not uses_beam(node):
        return base_executor.BaseExecutor.Context(**own)
    return base_beam_executor.BaseBeamExecutor.Context(make_beam_pipeline_fn=pipelines, **own)


def _output(type_: type[Artifact], uri: str) -> Artifact:
    artifact = type_()
    artifact.uri = uri
    artifact.set_string_custom_property("tfx_version", version.__version__)  # tells readers the layout of the files
    if isinstance(artifact, ValueArtifact):
        Path(uri).parent.mkdir(parents=True)
        artifact.uri = uri
    else:
        Path(uri).mkdir(parents=True)
    return artifact


def _carry_rows(inputs: Artifacts, outputs: Artifacts) -> None:
    """Examples made from examples (by Transform) are as many as those were."""
    counted = [artifact for artifacts in inputs.values() for artifact in artifacts if _counts_rows(artifact)]
    for artifacts in outputs.values():
        for artifact in artifacts:
            if isinstance(artifact, standard_artifacts.Examples) and counted and not _counts_rows(artifact):
                artifact.set_string_custom_property(ROWS, counted[0].get_string_custom_property(ROWS))


def _counts_rows(artifact: Artifact) -> bool:
    return isinstance(artifact, standard_artifacts.Examples) and artifact.has_custom_property(ROWS)
