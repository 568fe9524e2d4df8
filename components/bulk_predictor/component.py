"""BulkPredictor: predicts new data with the model in service, or the newest blessed one if nothing is ever pushed.

It reads rows as ExampleGen does and predicts them as `headrace predict` does, by columns, without tf.Examples on disk
in between. TFX's BulkInferrer reads Examples, for which the new data would have to go through a second ExampleGen.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.types import artifact, artifact_utils, component_spec, standard_artifacts

from headrace.common.durable import working_folder
from headrace.components.beam_pipelines import BeamComponent, always_beam
from headrace.components.bulk_predictor.artifact import Predictions
from headrace.components.bulk_predictor.record import FILE, NO_MODEL, ROWS, SKIPPED
from headrace.components.example_gen.beam_map import BeamMap
from headrace.components.predict.model import Predictor
from headrace.components.predict.predict import Predicted, Request, predict_file
from headrace.components.predict.reading import Input
from headrace.components.sources import serial_map
from headrace.components.spans.manifest import SpanManifest, check_unchanged
from headrace.components.spans.source_state import reads_files
from headrace.components.stored_models.blessed_record import EXISTS
from headrace.components.stored_models.usable import SERVING
from headrace.configs.schema.data import DataConfig, data_from_json
from headrace.configs.schema.predict import PREDICT_SOURCE
from headrace.trainer.description import ModelDescription

logger = logging.getLogger(__name__)

AUTOMATIC = 0
"""The batch size that stands for as many examples as fit."""


class Executor(base_beam_executor.BaseBeamExecutor):
    """Writes the predictions into one file of the artifact."""

    def Do(  # noqa: N802 - TFX's name
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """`exec_properties`: the component's parameters. Raises DataError for rows that cannot be predicted."""
        model = artifact_utils.get_single_instance(input_dict["model"])
        predictions = artifact_utils.get_single_instance(output_dict["predictions"])
        if not model.get_int_custom_property(EXISTS):
            logger.warning(NO_MODEL)
            return
        data = data_from_json(exec_properties["data"], PREDICT_SOURCE)
        manifest = SpanManifest.from_json(artifact_utils.get_single_instance(input_dict["spans"]).read())
        request = _request(Path(model.uri, SERVING), data, manifest, exec_properties)
        done = self._predict(request, manifest, Path(predictions.uri, FILE + exec_properties["ending"]))
        for line in done.skipped.reported:
            logger.warning(f"skipped: {line}")
        predictions.set_int_custom_property(ROWS, done.rows)
        predictions.set_int_custom_property(SKIPPED, done.skipped.count)
        logger.info(f"{done.rows:,} predictions by {model.uri}")

    def _predict(self, request: Request, manifest: SpanManifest, output: Path) -> Predicted:
        _check_unchanged(request.given, manifest)
        with working_folder(output) as work:
            if always_beam(self):
                results = work / "results"
                results.mkdir()
                beam_map = BeamMap(self._make_beam_pipeline, results, 0, always=True)
                done = predict_file(request, output, beam_map, work, tasks=True)
            else:
                done = predict_file(request, output, serial_map, work)
        _check_unchanged(request.given, manifest)
        return done


def _request(folder: Path, data: DataConfig, manifest: SpanManifest, properties: dict[str, Any]) -> Request:
    batch_size = properties["batch_size"]
    predictor = Predictor(folder, ModelDescription.read(folder), None if batch_size == AUTOMATIC else batch_size)
    columns, prefix = json.loads(properties["columns"]), properties["prefix"]
    return Request(Input(data, found=manifest.spans), predictor, columns, prefix, properties["probabilities"])


def _check_unchanged(given: Input, manifest: SpanManifest) -> None:
    """Raise DataError if a file has changed since it was listed, as the cache key is that of the listed one."""
    for span in given.spans if reads_files(given.data.source) else ():
        check_unchanged(span, checksums=manifest.checksums)


class BulkPredictorSpec(component_spec.ComponentSpec):
    """Inputs, outputs and parameters of BulkPredictor.

    Args:
        spans: the manifest of the new data, from PredictSpans.
        model: from ModelInService, or RecordBlessing if nothing is ever pushed.
        data: the DataConfig of the new data as JSON.
        ending: of the output, which names its format.
        columns: JSON list of the input's columns to write; `null` for all.
        prefix: text in front of the names of the predictions' columns.
        probabilities: which of them, as in `PredictConfig`.
        batch_size: examples in a call of the model; AUTOMATIC for as many as fit.
        code: a digest of the code that reads the data.
    """

    PARAMETERS = {
        **dict.fromkeys(
            ("data", "ending", "columns", "prefix", "probabilities"), component_spec.ExecutionParameter(type=str)
        ),
        "batch_size": component_spec.ExecutionParameter(type=int),
        "code": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "spans": component_spec.ChannelParameter(type=standard_artifacts.String),
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
    }
    OUTPUTS = {"predictions": component_spec.ChannelParameter(type=Predictions)}


class BulkPredictor(BeamComponent):
    """New data to a file with its predictions."""

    SPEC_CLASS = BulkPredictorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
