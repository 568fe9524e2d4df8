"""What the Evaluator's executor does: the one module of the component that imports TFMA's code.

TFMA's imports take more than a second, so only the process that evaluates makes them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import config_util
from tfx import types
from tfx.components.evaluator import constants
from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils, proto_utils

from headrace.components.beam_pipelines import workers_here
from headrace.components.evaluation import tfma, tfma_files
from headrace.components.evaluation.accumulate import accumulate_here
from headrace.components.evaluation.explain import Explaining
from headrace.components.evaluation.result import Evaluation, read_evaluation, write_evaluation
from headrace.components.evaluation.tasks import (
    EvaluatedTask,
    TaskEvaluation,
    accumulation,
    conclude_task,
    evaluate_tasks,
    joined,
    required_of,
)
from headrace.components.evaluation.verdict import Requirements
from headrace.components.file_groups import file_groups
from headrace.components.spans.split_spans import TRAINED_ON, RoleOfSpans
from headrace.components.stored_models.blessed_record import DAMAGED, EXISTS
from headrace.configs.schema.evaluate import SliceThreshold

logger = logging.getLogger(__name__)

Artifacts = dict[str, list[types.Artifact]]


def evaluate(
    executor: base_beam_executor.BaseBeamExecutor,
    input_dict: Artifacts,
    output_dict: Artifacts,
    exec_properties: dict[str, Any],
) -> None:
    """Evaluate the one split named in `example_splits`, and bless the model or not.

    executor: makes the Beam pipeline; the others: as TFX passes them to an executor's `Do`.
    """
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
    config = config_util.update_eval_config_with_defaults(given, has_baseline="baseline" in models, rubber_stamp=True)
    (split,) = json.loads(exec_properties["example_splits"])
    required = required._replace(remarks=_remarks(input_dict["examples"], split, models.get("baseline")))
    directory = Path(artifact_utils.get_single_uri(output_dict["evaluation"]))
    directory.mkdir(parents=True, exist_ok=True)
    explaining = Explaining(int(exec_properties["rows"]), int(exec_properties["importance"]))
    _measure(executor, input_dict["examples"], split, config, models, directory, required, explaining)
    _bless(artifact_utils.get_single_instance(output_dict["blessing"]), models, read_evaluation(directory))


def _measure(
    executor: base_beam_executor.BaseBeamExecutor,
    examples: list[types.Artifact],
    split: str,
    config: config_pb2.EvalConfig,
    models: dict[str, types.Artifact],
    directory: Path,
    required: Requirements,
    explaining: Explaining,
) -> None:
    """Accumulate and write the files: in this process, or in a Beam pipeline if the config names a runner."""
    names = [name for name in tfma.model_names(config) if name is not None]
    paths = {name: path_utils.serving_model_path(model.uri) for name, model in zip(names, models.values(), strict=True)}
    patterns = [io_utils.all_files_pattern(uri) for uri in artifact_utils.get_split_uris(examples, split)]
    files = [file for pattern in patterns for file in sorted(tf.io.gfile.glob(pattern))]
    groups = list(file_groups(split, files))
    tasks = [
        EvaluatedTask(task, of_task, split, paths, required_of(required, task), explaining)
        for task, of_task in tfma.by_task(config).items()
    ]
    if workers := workers_here(executor):
        of_label = accumulate_here(accumulation(tasks), groups, workers)
        evaluated = [conclude_task(*of_label(each.task), each) for each in tasks]
        _write(evaluated, config, paths, directory, required)
        return
    with executor._make_beam_pipeline() as pipeline:
        shards = pipeline | "Shards" >> beam.Create(groups) | "Reshuffle" >> beam.Reshuffle()
        _ = (
            evaluate_tasks(shards, tasks)
            | "AllTasks" >> beam.Flatten()
            | "GatherTasks" >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
            | "Write" >> beam.Map(_write, config, paths, directory, required)
        )


def _write(
    evaluated: Sequence[TaskEvaluation],
    config: config_pb2.EvalConfig,
    models: dict[str, str],
    directory: Path,
    required: Requirements,
) -> None:
    """Write the files. evaluated: the tasks in any order."""
    by_name = {task: (measured, evaluation) for task, measured, evaluation in evaluated}
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
