"""Evaluator: judges a model on held-out data by metrics, slices, thresholds and the comparison with the baseline."""

from __future__ import annotations

import json
import logging
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.pvalue import TaggedOutput
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import config_util
from tfx import types
from tfx.components.evaluator import constants
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.types import artifact_utils, channel, component_spec, standard_artifacts, standard_component_specs
from tfx.utils import io_utils, path_utils, proto_utils
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from headrace.common.errors import RunError
from headrace.components.deploy.registry import DAMAGED, EXISTS
from headrace.components.evaluation import tfma, tfma_files, verdict
from headrace.components.evaluation.explain import AUTO, Explaining, Judged, explain, loaded_model
from headrace.components.evaluation.intervals import folds_of, mixed_positions
from headrace.components.evaluation.kept import Kept
from headrace.components.evaluation.measured import KeyedAccumulator, ModelSlice, measure
from headrace.components.evaluation.metrics import metrics_of
from headrace.components.evaluation.metrics.accumulator import Array, MetricAccumulator, RunningTotal
from headrace.components.evaluation.result import Evaluation, read_evaluation, write_evaluation
from headrace.components.evaluation.slices import assign_slices
from headrace.components.evaluation.verdict import Requirements
from headrace.components.evaluation.weights import example_weights
from headrace.components.file_groups import FileGroup, MergeInOrder, file_groups
from headrace.components.split_spans import TRAINED_ON, RoleOfSpans
from headrace.components.transform.shards import read_records
from headrace.configs.schema.evaluate import EvaluateConfig, SliceThreshold
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.served_model import ModelCall

logger = logging.getLogger(__name__)

Artifacts = dict[str, list[types.Artifact]]
KEPT = "kept"
"""The output with the examples that are kept."""


class Executor(base_beam_executor.BaseBeamExecutor):
    """Replaces TFX's executor: the same inputs and outputs, with sums over whole batches."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> None:  # noqa: N802
        """Evaluate the one split named in `example_splits`, and bless the model or not."""
        models = {"model": artifact_utils.get_single_instance(input_dict["model"])}
        given = proto_utils.json_to_proto(exec_properties["eval_config"], config_pb2.EvalConfig())
        compares = tfma.compares_with_baseline(given)  # TFX drops such thresholds below if there is no baseline
        required = Requirements(
            better_than_constant=bool(exec_properties["better_than_constant"]),
            confident=tuple(json.loads(exec_properties["confident"])),
            slices=tuple(
                (metric, tuple(columns), SliceThreshold.model_validate(threshold))
                for metric, columns, threshold in json.loads(exec_properties["slice_thresholds"])
            ),
        )
        for baseline in input_dict.get("baseline_model", []):
            if not baseline.has_custom_property(EXISTS) or baseline.get_int_custom_property(EXISTS):
                models["baseline"] = baseline
            elif (damaged := Path(baseline.uri) / DAMAGED).exists() and compares:
                required = required._replace(blocked=damaged.read_text(encoding="utf-8"))
        config = config_util.update_eval_config_with_defaults(
            given, has_baseline="baseline" in models, rubber_stamp=True
        )
        (split,) = json.loads(exec_properties["example_splits"])
        required = required._replace(remarks=_remarks(input_dict["examples"], split, models.get("baseline")))
        directory = Path(artifact_utils.get_single_uri(output_dict["evaluation"]))
        directory.mkdir(parents=True, exist_ok=True)
        explaining = Explaining(int(exec_properties["rows"]), int(exec_properties["importance"]))
        self._evaluate(input_dict["examples"], split, config, models, directory, required, explaining)
        _bless(artifact_utils.get_single_instance(output_dict["blessing"]), models, read_evaluation(directory))

    def _evaluate(  # noqa: PLR0913, PLR0917
        self,
        examples: list[types.Artifact],
        split: str,
        config: config_pb2.EvalConfig,
        models: dict[str, types.Artifact],
        directory: Path,
        required: Requirements,
        explaining: Explaining,
    ) -> None:
        """Run the Beam pipeline, whose last stage writes the files."""
        names = [name for name in tfma.model_names(config) if name is not None]
        paths = {
            name: path_utils.serving_model_path(model.uri) for name, model in zip(names, models.values(), strict=True)
        }
        patterns = [io_utils.all_files_pattern(uri) for uri in artifact_utils.get_split_uris(examples, split)]
        files = [file for pattern in patterns for file in sorted(tf.io.gfile.glob(pattern))]
        accumulate = AccumulateFiles(paths, tfma.label_kind(config), config, split, explaining)
        with self._make_beam_pipeline() as pipeline:
            accumulated = (
                pipeline
                | "Shards" >> beam.Create(list(file_groups(split, files)))
                | "Spread" >> beam.Reshuffle()
                | "PredictAndAccumulate" >> beam.ParDo(accumulate).with_outputs(KEPT, main="accumulators")
            )
            kept = beam.pvalue.AsDict(accumulated[KEPT] | "Keep" >> MergeInOrder(_merge))
            _ = (
                accumulated["accumulators"]
                | "AddUp" >> MergeInOrder(_merge)
                | "Gather" >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
                | "Conclude" >> beam.Map(_conclude, kept, config, split, paths, directory, required, explaining)
            )


class EvaluatorSpec(standard_component_specs.EvaluatorSpec):
    """TFX's, and what its EvalConfig has no place for."""

    PARAMETERS = {
        **standard_component_specs.EvaluatorSpec.PARAMETERS,
        "better_than_constant": component_spec.ExecutionParameter(type=int),
        "confident": component_spec.ExecutionParameter(type=str),
        "slice_thresholds": component_spec.ExecutionParameter(type=str),
        "rows": component_spec.ExecutionParameter(type=int),
        "importance": component_spec.ExecutionParameter(type=int),
    }


class Evaluator(base_beam_component.BaseBeamComponent):
    """TFX's Evaluator with the executor above, and with what `EvaluateConfig` asks for beyond TFMA."""

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)


def evaluator(  # noqa: PLR0913
    *,
    examples: types.BaseChannel,
    model: types.BaseChannel,
    baseline: types.BaseChannel,
    label: LabelConfig,
    evaluate: EvaluateConfig,
    split: str,
    call: ModelCall | None = None,
    rows: int = 0,
) -> Evaluator:
    """The component that judges `model` on the examples of `split`.

    call: the signatures; None for those of ours; rows: how many of the worst-predicted examples the evaluation has.
    """
    spec = EvaluatorSpec(
        examples=examples,
        model=model,
        baseline_model=baseline,
        example_splits=json.dumps([split]),
        eval_config=tfma.eval_config(label, evaluate, call),
        better_than_constant=int(evaluate.better_than_constant),
        confident=json.dumps([name for name, threshold in evaluate.thresholds.items() if threshold.confident]),
        slice_thresholds=json.dumps(
            [
                (name, evaluate.slicings[slicing], each.model_dump())
                for name, threshold in evaluate.thresholds.items()
                for slicing, each in threshold.slices.items()
            ]
        ),
        rows=rows,
        importance={"auto": AUTO, "none": 0}.get(str(evaluate.importance), evaluate.importance),
        evaluation=channel.Channel(type=standard_artifacts.ModelEvaluation),
        blessing=channel.Channel(type=standard_artifacts.ModelBlessing),
    )
    return Evaluator(spec)


class AccumulateFiles(beam.DoFn):
    """Groups of files to accumulators by model and slice, each with the group's number.

    A second output, KEPT, has examples of the candidate's, by what they are kept for. models: the SavedModel's
    directory by the model's name, that of the candidate first; kind: of the label; split: its name, for messages.
    """

    def __init__(
        self,
        models: Mapping[str, str],
        kind: str,
        config: config_pb2.EvalConfig,
        split: str,
        explaining: Explaining,
    ) -> None:
        self._paths, self._kind = models, kind
        self._metrics = metrics_of(kind, tfma.decision_threshold(config), tfma.measured_names(config))
        self._split, self._weight = split, tfma.weight_column(config)
        self._calls = {spec.name: tfma.model_call(spec) for spec in config.model_specs}
        self._slicings = [list(spec.feature_keys) for spec in config.slicing_specs]
        self._models: dict[str, tf.Module] = {}
        self._candidate, self._explaining = next(iter(models)), explaining

    def setup(self) -> None:
        """Load the models."""
        self._decoder = ExamplesToRecordBatchDecoder()
        self._models = {name: loaded_model(path) for name, path in self._paths.items()}

    def process(self, group: FileGroup) -> Iterator[tuple[ModelSlice, tuple[int, MetricAccumulator]] | TaggedOutput]:
        """Accumulate the files for every model and slice. Raises RunError if the models are not comparable."""
        totals: defaultdict[ModelSlice, RunningTotal] = defaultdict(RunningTotal)
        kept: dict[str, Kept] = {}
        for file in group.files:
            start, name = 0, zlib.crc32(Path(file).name.encode())
            for examples in read_records(file):
                number = int(examples.shape[0])
                for key, accumulator in self._process_batch(examples, (start, number, name), kept):
                    totals[key].add(accumulator)
                start += number
        yield from ((key, (group.number, total.merged())) for key, total in totals.items())
        yield from (TaggedOutput(KEPT, (key, (group.number, one))) for key, one in kept.items())

    def _process_batch(
        self, examples: tf.Tensor, place: tuple[int, int, int], kept: dict[str, Kept]
    ) -> Iterator[KeyedAccumulator]:
        """The accumulators of serialized examples [n]. place: the arguments of `folds_of`; kept: what is kept of the
        candidate's examples so far, to which those of this batch are added.
        """
        serialized, folds, drawn = examples.numpy(), folds_of(*place), mixed_positions(*place)
        batch = self._decoder.DecodeBatch(serialized.tolist())
        assignments = [assign_slices(batch, columns) for columns in self._slicings]
        weights, widths = example_weights(batch, self._weight, self._split), set()
        for name in self._models:
            labels, predictions = self._predict(name, examples)
            widths.add(predictions.shape[1])
            if len(widths) > 1 and self._kind != "next_word":  # whose classes depend on the data of each model
                raise RunError(_not_comparable(self._paths[name]))
            usable = self._metrics.usable(labels)
            yield (name, None), MetricAccumulator.of_count(float(np.sum(~usable)))
            used = usable & (weights > 0)
            judged = Judged(labels[used], predictions[used], weights[used])
            if name == self._candidate:
                for key, one in self._explaining.keep(judged, self._metrics, drawn[used], serialized[used]).items():
                    kept[key] = kept[key].merge([one]) if key in kept else one
            for keys, groups in ((each.keys, each.groups[used]) for each in assignments):
                found = self._metrics.accumulate(
                    judged.labels, judged.predictions, groups, len(keys), judged.weights, folds[used]
                )
                yield from (((name, key), one) for key, one in zip(keys, found, strict=True) if one.examples.any())

    def _predict(self, name: str, examples: tf.Tensor) -> tuple[Array, Array]:
        """Labels [n], or [n, classes], and predictions [n, outputs], float64, of serialized examples [n]."""
        call, model = self._calls[name], self._models[name]
        if call.why_not(model):
            raise RunError(_not_comparable(self._paths[name]))
        found, predictions = call(model, examples)
        number = int(examples.shape[0])
        labels = found.numpy().astype(np.float64).reshape((number, -1)[: self._metrics.label_rank])
        outputs = predictions.numpy().astype(np.float64).reshape(number, -1)
        if self._kind == "multilabel" and labels.shape != outputs.shape:
            raise RunError(
                f"the model {self._paths[name]} returns {labels.shape[1]:,} labels for each example, and"
                f" {outputs.shape[1]:,} predictions; a multilabel label needs one of both for each class"
            )
        return labels, outputs


def _not_comparable(path: str) -> str:
    return (
        f"the model {path} was made for another label, or has other classes or signatures, so it cannot be the"
        " baseline.\n"
        "  Delete blessed.json in the pipeline's folder, or give the pipeline another name."
    )


def _merge(parts: Sequence[Any]) -> Any:
    """Accumulators, or kept examples, as one."""
    return parts[0].merge(parts[1:]) if parts[1:] else parts[0]


def _conclude(  # noqa: PLR0913, PLR0917
    accumulators: Sequence[KeyedAccumulator],
    kept: Mapping[str, Kept],
    config: config_pb2.EvalConfig,
    split: str,
    models: dict[str, str],
    directory: Path,
    required: Requirements,
    explaining: Explaining,
) -> None:
    measured = measure(accumulators, config)
    evaluation = verdict.conclude(accumulators, measured, config, split, required)
    evaluation = explain(evaluation, kept, next(iter(models.values())), config, explaining)
    for remark in evaluation.remarks:
        logger.warning(remark)
    tfma_files.write_files(directory, measured, config, models, blessed=evaluation.blessed)
    write_evaluation(directory, evaluation)


def _remarks(examples: list[types.Artifact], split: str, baseline: types.Artifact | None) -> tuple[str, ...]:
    """What limits the comparison with the baseline: spans that it learned from."""
    if baseline is None or not baseline.has_custom_property(TRAINED_ON):
        return ()
    roles = RoleOfSpans.of(artifact_utils.get_single_instance(examples))
    return roles.remarks(split, json.loads(baseline.get_string_custom_property(TRAINED_ON)))


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
    logger.info("blessed" if evaluation.blessed else "\n".join(("not blessed:", *evaluation.reasons)))
