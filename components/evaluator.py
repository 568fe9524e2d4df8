"""Judging a model on held-out data: metrics, slices, thresholds, and the comparison with the baseline."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import config_util
from tfx import types
from tfx.components.evaluator import component, constants
from tfx.components.util import tfxio_utils
from tfx.dsl.components.base import base_beam_executor, executor_spec
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils, proto_utils

from headrace.components.baseline import EXISTS
from headrace.components.eval_config import eval_config
from headrace.components.evaluation import conclude, tfma_files
from headrace.components.evaluation.predict import RAW, Keyed, TallyBatches
from headrace.components.evaluation.tally import Tally
from headrace.components.evaluation_result import Evaluation, read_evaluation, write_evaluation
from headrace.components.registry import DAMAGED
from headrace.configs.evaluate import EvaluateConfig
from headrace.configs.label import LabelConfig

BATCH = 2048
"""Examples that a model predicts at once."""

Artifacts = dict[str, list[types.Artifact]]


class Executor(base_beam_executor.BaseBeamExecutor):
    """Does what TFX's does, from the same inputs to the same outputs, with the sums over whole batches."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:  # noqa: N802
        """Evaluate the one split named in `example_splits`, and bless the model or not."""
        models = {"model": artifact_utils.get_single_instance(input_dict["model"])}
        closed = ""
        for baseline in input_dict.get("baseline_model", []):
            if not baseline.has_custom_property(EXISTS) or baseline.get_int_custom_property(EXISTS):
                models["baseline"] = baseline
            elif (damaged := Path(baseline.uri) / DAMAGED).exists() and _compares(exec_properties["eval_config"]):
                closed = damaged.read_text(encoding="utf-8")
        config = _config(exec_properties["eval_config"], has_baseline="baseline" in models)
        (split,) = json.loads(exec_properties["example_splits"])
        directory = Path(artifact_utils.get_single_uri(output_dict["evaluation"]))
        directory.mkdir(parents=True, exist_ok=True)
        self._evaluate(input_dict["examples"], split, config, models, directory, closed)
        _bless(artifact_utils.get_single_instance(output_dict["blessing"]), models, read_evaluation(directory))

    def _evaluate(  # noqa: PLR0913, PLR0917
        self,
        examples: list[types.Artifact],
        split: str,
        config: config_pb2.EvalConfig,
        models: dict[str, types.Artifact],
        directory: Path,
        closed: str,
    ) -> None:
        """Run the Beam pipeline, whose last stage writes the files. closed: why the model cannot pass, if so."""
        names = [name for name in conclude.model_names(config) if name is not None]
        paths = {
            name: path_utils.serving_model_path(model.uri) for name, model in zip(names, models.values(), strict=True)
        }
        tfxio = tfxio_utils.get_tfxio_factory_from_artifact(examples, ["Evaluator"], raw_record_column_name=RAW)
        patterns = [io_utils.all_files_pattern(uri) for uri in artifact_utils.get_split_uris(examples, split)]
        with self._make_beam_pipeline() as pipeline:
            _ = (
                pipeline
                | "ReadExamples" >> tfxio(patterns).BeamSource(BATCH)
                | "PredictAndTally" >> beam.ParDo(TallyBatches(paths, conclude.kind_of(config), config))
                | "AddUp" >> beam.CombinePerKey(_add)
                | "Gather" >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
                | "Conclude" >> beam.Map(_write, config, split, paths, directory, closed)
            )


class Evaluator(component.Evaluator):
    """TFX's Evaluator with the executor above."""

    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)


def evaluator(  # noqa: PLR0913
    *,
    examples: types.BaseChannel,
    model: types.BaseChannel,
    baseline: types.BaseChannel,
    label: LabelConfig,
    evaluate: EvaluateConfig,
    split: str,
) -> Evaluator:
    """The component that judges `model` on the examples of `split`."""
    return Evaluator(
        examples=examples,
        model=model,
        baseline_model=baseline,
        example_splits=[split],
        eval_config=eval_config(label, evaluate),
    )


def _config(text: str, *, has_baseline: bool) -> config_pb2.EvalConfig:
    config = proto_utils.json_to_proto(text, config_pb2.EvalConfig())
    return config_util.update_eval_config_with_defaults(config, has_baseline=has_baseline, rubber_stamp=True)


def _compares(text: str) -> bool:
    """Whether a threshold bounds the difference from the baseline. TFX drops those where there is no baseline."""
    config = proto_utils.json_to_proto(text, config_pb2.EvalConfig())
    return any(
        each.threshold.change_threshold.HasField("absolute")
        for metric in config.metrics_specs[0].metrics
        for each in metric.per_slice_thresholds
    )


def _add(tallies: Iterable[Tally]) -> Tally:
    return functools.reduce(operator.add, tallies)


def _write(  # noqa: PLR0913, PLR0917
    tallies: Sequence[Keyed],
    config: config_pb2.EvalConfig,
    split: str,
    models: dict[str, str],
    directory: Path,
    closed: str,
) -> None:
    values = conclude.values_of(tallies, config)
    evaluation = conclude.conclude(tallies, values, config, split, closed)
    tfma_files.write(directory, values, config, models, blessed=evaluation.blessed)
    write_evaluation(directory, evaluation)


def _bless(blessing: types.Artifact, models: dict[str, types.Artifact], evaluation: Evaluation) -> None:
    """Set TFX's properties and write its marker file."""
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, models["model"].uri)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, models["model"].id)
    if "baseline" in models:
        blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY, models["baseline"].uri)
        blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY, models["baseline"].id)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(evaluation.blessed))
    marker = constants.BLESSED_FILE_NAME if evaluation.blessed else constants.NOT_BLESSED_FILE_NAME
    io_utils.write_string_file(str(Path(blessing.uri) / marker), "")
    print("blessed" if evaluation.blessed else "\n".join(("not blessed:", *evaluation.reasons)))
