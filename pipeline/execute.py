"""Running one component's executor on given artifacts: all that a runner, local or in a pod, has to do for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from tfx import version
from tfx.dsl.components.base import base_beam_executor, base_executor
from tfx.types import Artifact, standard_artifacts
from tfx.types.value_artifact import ValueArtifact

from configs.config import BeamConfig
from configs.errors import RunError
from pipeline.plan import Node

Artifacts = dict[str, list[Artifact]]
ROWS = "rows"
"""Custom property of Examples: JSON {split: number of examples}."""

WORKERS = re.compile(r".*\bconfigs\.errors\.\w+: (.+?) \[while running '", re.DOTALL)
"""In the text of an error that comes from Beam's workers, the traceback there: the last words in it that are ours."""


def execute(
    node: Node, inputs: Artifacts, output_uris: Mapping[str, str], scratch: Path, settings: BeamConfig
) -> Artifacts:
    """Run `node` on `inputs`, with its outputs at the given URIs; the output artifacts with their properties.

    `scratch` is an existing folder for temporary files. Raises whatever the executor raises; RunError with the words of
    a HeadraceError that one of Beam's workers met.
    """
    outputs = {key: [_output(node.outputs[key], uri)] for key, uri in output_uris.items()}
    for artifacts in inputs.values():
        for artifact in artifacts:
            if isinstance(artifact, ValueArtifact):
                artifact.read()
    executor = node.executor(_context(node, scratch, settings))
    try:
        executor.Do(inputs, outputs, dict(node.exec_properties))
    except RuntimeError as error:
        if said := WORKERS.match(str(error)):
            raise RunError(said[1]) from error
        raise
    _carry_rows(inputs, outputs)
    return outputs


def beam_pipeline(settings: BeamConfig, scratch: Path) -> beam.Pipeline:
    """A Beam pipeline on the in-process runner, or on the one that `beam.args` names."""
    # Beam's DirectRunner would first try to download another runner.
    args = ["--runner=FnApiRunner", f"--temp_location={scratch}"]
    if settings.workers > 1:
        args += ["--direct_running_mode=multi_threading", f"--direct_num_workers={settings.workers}"]
    return beam.Pipeline(options=PipelineOptions([*args, *settings.args]))


def _context(node: Node, scratch: Path, settings: BeamConfig) -> base_executor.BaseExecutor.Context:
    place = {"tmp_dir": str(scratch), "unique_id": node.id, "stateful_working_dir": str(scratch)}
    if not issubclass(node.executor, base_beam_executor.BaseBeamExecutor):
        return base_executor.BaseExecutor.Context(**place)
    return base_beam_executor.BaseBeamExecutor.Context(
        make_beam_pipeline_fn=lambda: beam_pipeline(settings, scratch), **place
    )


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
