"""Run one component's executor on given artifacts: everything that a runner, here or in a pod, does for a component."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfx import version
from tfx.dsl.components.base import base_beam_executor, base_executor
from tfx.types import Artifact, standard_artifacts
from tfx.types.value_artifact import ValueArtifact

from headrace.common.errors import GateError, RunError
from headrace.common.heap import limit_free_heap
from headrace.components.beam_pipelines import BeamPipelines
from headrace.components.contents import check_whole, seal
from headrace.pipeline.plan import Node

logger = logging.getLogger(__name__)

Artifacts = dict[str, list[Artifact]]
ROWS = "rows"
"""Custom property of Examples: JSON {split: number of examples}."""

WORKER_ERROR = re.compile(r".*\bheadrace\.[\w.]*errors\.\w+: (.+?) \[while running '", re.DOTALL)
"""Matches the text of an error of Beam's workers, which holds their traceback; the group is our own last message."""


def execute(node: Node, inputs: Artifacts, output_uris: Mapping[str, str], pipelines: BeamPipelines) -> Artifacts:
    """Run `node` on `inputs`, writing to the given URIs; returns the output artifacts with properties and checksums.

    For a Beam component, what Beam executed is logged. Raises RunError if an input is damaged, or with the message of a
    HeadraceError that a Beam worker raised; otherwise whatever the executor raises, a GateError with the verdicts that
    the component left.
    """
    limit_free_heap()
    outputs = {key: [_output(node.outputs[key], uri)] for key, uri in output_uris.items()}
    for artifacts in inputs.values():
        for artifact in artifacts:
            if not isinstance(artifact, standard_artifacts.Examples):  # TFRecords carry checksums of their own
                check_whole(artifact)
            if isinstance(artifact, ValueArtifact):
                artifact.read()
    executor = node.executor(_context(node, pipelines))
    with _reported(outputs):
        executor.Do(inputs, outputs, dict(node.exec_properties))
    if uses_beam(node):
        logger.info("Beam: %s", pipelines.summary)
    _pass_on_rows(inputs, outputs)
    for key, (artifact,) in outputs.items():
        if artifact.uri == output_uris[key]:  # otherwise it is an existing model, sealed when it was made
            seal(artifact)
    return outputs


@contextlib.contextmanager
def _reported(outputs: Artifacts) -> Iterator[None]:
    """Give a GateError the verdicts among the outputs, and turn an error of ours from a Beam worker into RunError."""
    try:
        yield
    except GateError as error:
        error.verdicts = _verdicts(outputs)
        raise
    except RuntimeError as error:
        if reported := WORKER_ERROR.match(str(error)):
            raise RunError(reported[1]) from error
        raise


def _verdicts(outputs: Artifacts) -> Artifacts:
    """The values that a gate wrote before it stopped the run."""
    written = {
        key: artifacts
        for key, artifacts in outputs.items()
        if isinstance(artifacts[0], ValueArtifact) and Path(artifacts[0].uri).is_file()
    }
    for (artifact,) in written.values():
        seal(artifact)
    return written


def uses_beam(node: Node) -> bool:
    return issubclass(node.executor, base_beam_executor.BaseBeamExecutor)


def _context(node: Node, pipelines: BeamPipelines) -> base_executor.BaseExecutor.Context:
    scratch = str(pipelines.scratch)
    own = {"tmp_dir": scratch, "unique_id": node.id, "stateful_working_dir": scratch}
    if not uses_beam(node):
        return base_executor.BaseExecutor.Context(**own)
    return base_beam_executor.BaseBeamExecutor.Context(make_beam_pipeline_fn=pipelines, **own)


def _output(type_: type[Artifact], uri: str) -> Artifact:
    artifact = type_()
    artifact.uri = uri
    artifact.set_string_custom_property("tfx_version", version.__version__)  # readers infer the file layout from it
    if isinstance(artifact, ValueArtifact):
        Path(uri).parent.mkdir(parents=True)
        artifact.uri = uri
    else:
        Path(uri).mkdir(parents=True)
    return artifact


def _pass_on_rows(inputs: Artifacts, outputs: Artifacts) -> None:
    """Copy the row counts to examples made from examples (by Transform), which are as many."""
    counted = [artifact for artifacts in inputs.values() for artifact in artifacts if _counts_rows(artifact)]
    for artifacts in outputs.values():
        for artifact in artifacts:
            if isinstance(artifact, standard_artifacts.Examples) and counted and not _counts_rows(artifact):
                artifact.set_string_custom_property(ROWS, counted[0].get_string_custom_property(ROWS))


def _counts_rows(artifact: Artifact) -> bool:
    return isinstance(artifact, standard_artifacts.Examples) and artifact.has_custom_property(ROWS)
