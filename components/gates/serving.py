"""The components that read the log of a model server, for `gates.skew`.

ServingLog lists its files in every run; ServingStatistics, whose result is reused while the files are the same, reads
them as ExampleGen does and computes the statistics that DataVerdict compares.
"""

import json
import logging
import tempfile
from pathlib import Path
from typing import Any

from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatistics, DatasetFeatureStatisticsList
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.types import artifact, artifact_utils, component_spec, standard_artifacts

from headrace.components.beam_pipelines import BeamComponent, always_beam, workers_here
from headrace.components.example_gen.beam_map import BeamMap, local_threads
from headrace.components.example_gen.ingest import ingest
from headrace.components.examples.skips import skipped_in_section
from headrace.components.gates.log_columns import as_logged
from headrace.components.gates.serving_log import list_log
from headrace.components.spans.manifest import SpanManifest
from headrace.components.statistics.combine import CombineShards, StatisticsCombiner, combine_directly, to_files
from headrace.configs.schema.data import data_from_json
from headrace.configs.schema.gates import SKEW_SOURCE

logger = logging.getLogger(__name__)

SERVING = "serving"
"""The split of the requests."""
NOT_SPLIT = {
    "splits": {SERVING: 1},
    "split_key": None,
    "split_by": None,
    "split_column": None,
    "split_spans": {},
    "split_values": {},
    "stratify": False,
    "shards": "auto",
    "compression": "none",
}
"""The settings with which all rows go to one split."""


@component
def ServingLog(  # noqa: N802
    log: OutputArtifact[standard_artifacts.String],
    data: Parameter[str],
    code: Parameter[str] = "",
    as_of: InputArtifact[standard_artifacts.String] = None,
) -> None:
    """List the files of a model server's log.

    Args:
        log: the manifest as JSON, without spans if nothing was logged.
        data: the DataConfig of the log as JSON.
        code: a digest of the code that finds them, including the user's own function if one supplies the requests.
        as_of: the date of the run, from Spans; spans with dates after it are left out.
    """
    list_log(log, data, code, as_of)


class Executor(base_beam_executor.BaseBeamExecutor):
    """Writes the statistics of the requests; those of no examples if there are none."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """`exec_properties`: the component's parameters. Raises DataError for requests that cannot be read."""
        manifest = SpanManifest.from_json(artifact_utils.get_single_instance(input_dict["log"]).read())
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        statistics.split_names = artifact_utils.encode_split_names([SERVING])
        target = f"{statistics.uri}/Split-{SERVING}/{DEFAULT_FILE_NAME}"
        if not manifest.spans:
            _write_of_none(target)
            return
        given, compared = data_from_json(exec_properties["data"], SKEW_SOURCE), json.loads(exec_properties["columns"])
        with skipped_in_section(given):
            data = as_logged(given, manifest, compared).model_copy(update=NOT_SPLIT)
        always = always_beam(self)
        threads = 0 if always else local_threads(self._make_beam_pipeline)
        with skipped_in_section(given), tempfile.TemporaryDirectory(dir=_folder(statistics)) as work:
            result = ingest(
                data,
                manifest,
                Path(work, "examples"),
                lambda folder: BeamMap(self._make_beam_pipeline, folder, threads, always=always),
                may_lack=True,
            )
            files = sorted(map(str, Path(work, "examples").glob("Split-*/*")))
            if sum(result.rows.values()):
                self._combine(files, target)
            else:
                _write_of_none(target)
        statistics.set_int_custom_property("rows", sum(result.rows.values()))
        statistics.set_int_custom_property("skipped", result.skipped.count)

    def _combine(self, files: list[str], target: str) -> None:
        shards, write = {SERVING: files}, to_files({SERVING: target})
        if workers := workers_here(self):
            combine_directly(shards, StatisticsCombiner(), write, workers)
            return
        with self._make_beam_pipeline() as pipeline:
            _ = pipeline | CombineShards(shards, StatisticsCombiner(), write)


def _folder(statistics: artifact.Artifact) -> Path:
    folder = Path(statistics.uri)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write_of_none(target: str) -> None:
    """Write the statistics of no examples."""
    logger.info("no request is logged yet")
    to_files({SERVING: target})((SERVING, DatasetFeatureStatisticsList(datasets=[DatasetFeatureStatistics()])))


def served_statistics(statistics: artifact.Artifact) -> DatasetFeatureStatisticsList:
    """Those that ServingStatistics wrote; of no examples if nothing was logged."""
    file = Path(statistics.uri, f"Split-{SERVING}", DEFAULT_FILE_NAME)
    return DatasetFeatureStatisticsList.FromString(file.read_bytes())


class ServingStatisticsSpec(component_spec.ComponentSpec):
    """Inputs, outputs and parameters of ServingStatistics.

    Args:
        log: the manifest of the log, from ServingLog.
        data: the DataConfig of the log as JSON.
        columns: JSON list of the columns to read; empty for all.
        code: a digest of the code that reads them.
    """

    PARAMETERS = dict.fromkeys(("data", "columns", "code"), component_spec.ExecutionParameter(type=str))
    INPUTS = {"log": component_spec.ChannelParameter(type=standard_artifacts.String)}
    OUTPUTS = {"statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics)}


class ServingStatistics(BeamComponent):
    """Logged requests to their statistics."""

    SPEC_CLASS = ServingStatisticsSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
