"""Evaluator: judges a model on held-out data by metrics, slices, thresholds and the comparison with the baseline."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import tensorflow as tf
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import config_util
from tfx import types
from tfx.components.evaluator import constants
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.types import artifact_utils, channel, component_spec, standard_artifacts, standard_component_specs
from tfx.utils import io_utils, path_utils, proto_utils

from headrace.components.beam_pipelines import is_small
from headrace.components.deploy.registry import DAMAGED, EXISTS
from headrace.components.evaluation import tfma, tfma_files, verdict
from headrace.components.evaluation.accumulate import KEPT, AccumulateFiles, accumulate_here, merge
from headrace.components.evaluation.explain import AUTO, Explaining, Judge, explain
from headrace.components.evaluation.kept import Kept
from headrace.components.evaluation.measured import KeyedAccumulator, Measured, measure
from headrace.components.evaluation.result import Evaluation, read_evaluation, write_evaluation
from headrace.components.evaluation.tasks import joined, required_of
from headrace.components.evaluation.verdict import Requirements
from headrace.components.file_groups import MergeInOrder, file_groups
from headrace.components.split_spans import TRAINED_ON, RoleOfSpans
from headrace.configs.schema.evaluate import EvaluateConfig, SliceThreshold
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.served_model import ModelCall

logger = logging.getLogger(__name__)

Artifacts = dict[str, list[types.Artifact]]


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
        """Accumulate and write the files: in a Beam pipeline, or in this process if the split is small."""
        names = [name for name in tfma.model_names(config) if name is not None]
        paths = {
            name: path_utils.serving_model_path(model.uri) for name, model in zip(names, models.values(), strict=True)
        }
        patterns = [io_utils.all_files_pattern(uri) for uri in artifact_utils.get_split_uris(examples, split)]
        files = [file for pattern in patterns for file in sorted(tf.io.gfile.glob(pattern))]
        groups = list(file_groups(split, files))
        tasks = [
            Judging(task, of_task, split, paths, required_of(required, task), explaining)
            for task, of_task in tfma.by_task(config).items()
        ]
        if is_small(self, files):
            judged = [_conclude(*accumulate_here(each.accumulate(), groups), each) for each in tasks]
            _write(judged, config, paths, directory, required)
            return
        with self._make_beam_pipeline() as pipeline:
            spread = pipeline | "Shards" >> beam.Create(groups) | "Spread" >> beam.Reshuffle()
            _ = (
                [_judged(spread, each) for each in tasks]
                | "AllTasks" >> beam.Flatten()
                | "Together" >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
                | "Write" >> beam.Map(_write, config, paths, directory, required)
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


class Judging(NamedTuple):
    """How one label is judged. task: its name if there are several, else ""; config: as if it were the only one;
    models: the SavedModel's directory by the model's name.
    """

    task: str
    config: config_pb2.EvalConfig
    split: str
    models: dict[str, str]
    required: Requirements
    explaining: Explaining

    def accumulate(self) -> AccumulateFiles:
        """What reads and predicts the examples."""
        return AccumulateFiles(self.models, tfma.label_kind(self.config), self.config, self.split, self.explaining)

    def stage(self, name: str) -> str:
        """The name of a stage of the pipeline."""
        return f"{name} {self.task}" if self.task else name


TaskEvaluation = tuple[str, Measured, Evaluation]
"""The name of a task, its metrics and its evaluation."""


def _judged(groups: beam.PCollection, judging: Judging) -> beam.PCollection:
    """Groups of files to one TaskEvaluation."""
    stage = judging.stage
    accumulated = groups | stage("PredictAndAccumulate") >> beam.ParDo(judging.accumulate()).with_outputs(
        KEPT, main="accumulators"
    )
    kept = beam.pvalue.AsDict(accumulated[KEPT] | stage("Keep") >> MergeInOrder(merge))
    return (
        accumulated["accumulators"]
        | stage("AddUp") >> MergeInOrder(merge)
        | stage("Gather") >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
        | stage("Conclude") >> beam.Map(_conclude, kept, judging)
    )


def _conclude(accumulators: Sequence[KeyedAccumulator], kept: Mapping[str, Kept], judging: Judging) -> TaskEvaluation:
    config, model = judging.config, next(iter(judging.models.values()))
    measured = measure(accumulators, config)
    evaluation = verdict.conclude(accumulators, measured, config, judging.split, judging.required)
    evaluation = explain(evaluation, kept, Judge.of(model, config, judging.task), judging.explaining)
    return judging.task, measured, evaluation


def _write(
    judged: Sequence[TaskEvaluation],
    config: config_pb2.EvalConfig,
    models: dict[str, str],
    directory: Path,
    required: Requirements,
) -> None:
    """Write the files. judged: the tasks in any order."""
    by_name = {task: (measured, evaluation) for task, measured, evaluation in judged}
    in_order = {task: by_name[task] for task in tfma.by_task(config)}
    evaluations = {task: evaluation for task, (_, evaluation) in in_order.items()}
    evaluation = evaluations[""] if "" in evaluations else joined(evaluations, required)
    for remark in evaluation.remarks:
        logger.warning(remark)
    measured = {task: measured for task, (measured, _) in in_order.items()}
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
