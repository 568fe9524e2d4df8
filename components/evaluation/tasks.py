"""The evaluation of each label of a model, and that of the model, made of those of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import apache_beam as beam
from tensorflow_model_analysis.proto import config_pb2

from headrace.components.evaluation import tfma, verdict
from headrace.components.evaluation.accumulate import (
    ACCUMULATORS,
    RANKED,
    AccumulateFiles,
    LabelAccumulation,
    merged,
    merged_ranked,
    output,
)
from headrace.components.evaluation.explain import Explaining, Judge, explain
from headrace.components.evaluation.measured import KeyedAccumulator, Measured, measure
from headrace.components.evaluation.ranked_examples import RankedExamples
from headrace.components.evaluation.result import Evaluation, Metrics, SliceMetrics, ThresholdCheck
from headrace.components.evaluation.verdict import Requirements
from headrace.components.file_groups import MergeInOrder
from headrace.configs.schema.metrics import of_task, own_name, task_metric

Each = TypeVar("Each")
Value = TypeVar("Value")


class EvaluatedTask(NamedTuple):
    """How one label is evaluated. task: its name if there are several, else ""; config: as if it were the only one;
    models: the SavedModel's directory by the model's name.
    """

    task: str
    config: config_pb2.EvalConfig
    split: str
    models: dict[str, str]
    required: Requirements
    explaining: Explaining

    def accumulate(self) -> LabelAccumulation:
        """What is accumulated of its examples."""
        return LabelAccumulation(self.models, tfma.label_kind(self.config), self.config, self.explaining)

    def stage(self, name: str) -> str:
        """The name of a stage of the pipeline."""
        return f"{name} {self.task}" if self.task else name


TaskEvaluation = tuple[str, Measured, Evaluation]
"""The name of a task, its metrics and its evaluation."""


def accumulation(tasks: Sequence[EvaluatedTask]) -> AccumulateFiles:
    """What reads the examples and predicts them, once for all tasks."""
    first = tasks[0]
    return AccumulateFiles({each.task: each.accumulate() for each in tasks}, first.models, first.config, first.split)


def evaluate_tasks(groups: beam.PCollection, tasks: Sequence[EvaluatedTask]) -> list[beam.PCollection]:
    """Groups of files to one TaskEvaluation of each task."""
    accumulate = accumulation(tasks)
    accumulated = groups | "PredictAndAccumulate" >> beam.ParDo(accumulate).with_outputs(*accumulate.outputs)
    return [_evaluate_task(accumulated, each) for each in tasks]


def _evaluate_task(accumulated: beam.pvalue.DoOutputsTuple, task: EvaluatedTask) -> beam.PCollection:
    stage = task.stage
    kept = accumulated[output(RANKED, task.task)] | stage("Keep") >> MergeInOrder(merged_ranked)
    ranked = beam.pvalue.AsDict(kept)
    return (
        accumulated[output(ACCUMULATORS, task.task)]
        | stage("AddUp") >> MergeInOrder(merged)
        | stage("Gather") >> beam.CombineGlobally(beam.combiners.ToListCombineFn())
        | stage("Conclude") >> beam.Map(conclude_task, ranked, task)
    )


def conclude_task(
    accumulators: Sequence[KeyedAccumulator], ranked: Mapping[str, RankedExamples], task: EvaluatedTask
) -> TaskEvaluation:
    """The metrics of a task, the verdict, and what the kept examples show."""
    config, model = task.config, next(iter(task.models.values()))
    measured = measure(accumulators, config)
    evaluation = verdict.conclude(accumulators, measured, config, task.split, task.required)
    evaluation = explain(evaluation, ranked, Judge.of(model, config, task.task), task.explaining)
    return task.task, measured, evaluation


def required_of(requirements: Requirements, task: str) -> Requirements:
    """What a blessing takes of one task; of "", the only label, all. What is said of the whole model is left out."""
    if not task:
        return requirements
    return requirements._replace(
        confident=tuple(of_task(requirements.confident, task).values()),
        slices=tuple(
            (own_name(metric), columns, threshold)
            for metric, columns, threshold in requirements.slices
            if metric in of_task([metric], task)
        ),
        blocked="",
        remarks=(),
    )


def joined(tasks: Mapping[str, Evaluation], requirements: Requirements) -> Evaluation:
    """One evaluation of all tasks: blessed if each of them is, and nothing blocks the model.

    The number of examples is the largest of the tasks, some of which may lack labels, and `unlabelled` the smallest.
    """
    first = next(iter(tasks.values()))
    reasons = [
        reason for task, one in tasks.items() for reason in verdict.rejection_reasons(one.checks, one.metrics, task)
    ]
    reasons += [requirements.blocked] * bool(requirements.blocked)
    remarks = (f"{task}: {remark}" for task, one in tasks.items() for remark in one.remarks)
    return Evaluation(
        split=first.split,
        example_count=max(one.example_count for one in tasks.values()),
        unlabelled=min(one.unlabelled for one in tasks.values()),
        metrics=_all(tasks, lambda one: one.metrics),
        baseline=None if first.baseline is None else _all(tasks, lambda one: one.baseline or {}),
        slices=_slices(tasks),
        checks=tuple(_checks(tasks)),
        blessed=not reasons,
        reasons=tuple(reasons),
        curves=None,
        constant=_all(tasks, lambda one: one.constant),
        remarks=(*requirements.remarks, *remarks),
        weight=first.weight,
        intervals=_all(tasks, lambda one: one.intervals),
        change=_all(tasks, lambda one: one.change),
        tasks=dict(tasks),
    )


def _all(tasks: Mapping[str, Each], of: Callable[[Each], Mapping[str, Value]]) -> dict[str, Value]:
    """What each task has by metric, by the metric's name with that of the task."""
    return {task_metric(task, name): value for task, one in tasks.items() for name, value in of(one).items()}


def _checks(tasks: Mapping[str, Evaluation]) -> Iterator[ThresholdCheck]:
    for task, one in tasks.items():
        yield from (replace(check, metric=task_metric(task, check.metric)) for check in one.checks)


def _slices(tasks: Mapping[str, Evaluation]) -> tuple[SliceMetrics, ...]:
    """The slices that any task has, in the order of the first that has them."""
    found: dict[str, dict[str, SliceMetrics]] = {}
    for task, one in tasks.items():
        for each in one.slices:
            found.setdefault(each.name, {})[task] = each
    return tuple(_joined_slice(name, of_tasks) for name, of_tasks in found.items())


def _joined_slice(name: str, tasks: Mapping[str, SliceMetrics]) -> SliceMetrics:
    each: Sequence[SliceMetrics] = list(tasks.values())
    before: Metrics = _all(tasks, lambda one: one.baseline or {})
    return SliceMetrics(
        name=name,
        metrics=_all(tasks, lambda one: one.metrics),
        example_count=max(one.example_count for one in each),
        baseline=before if any(one.baseline is not None for one in each) else None,
        intervals=_all(tasks, lambda one: one.intervals),
        change=_all(tasks, lambda one: one.change),
    )
