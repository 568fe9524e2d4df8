"""The evaluation of a model of several labels, made of those of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.components.evaluation.result import Evaluation, Metrics, SliceMetrics, ThresholdCheck
from headrace.components.evaluation.verdict import Requirements
from headrace.configs.schema.metrics import task_metric

Value = TypeVar("Value")


def required_of(requirements: Requirements, task: str) -> Requirements:
    """What a blessing takes of one task; of "", the only label, all. What is said of the whole model is left out."""
    if not task:
        return requirements
    before = task_metric(task, "")
    return requirements._replace(
        confident=tuple(name.removeprefix(before) for name in requirements.confident if name.startswith(before)),
        slices=tuple(
            (metric.removeprefix(before), columns, threshold)
            for metric, columns, threshold in requirements.slices
            if metric.startswith(before)
        ),
        blocked="",
        remarks=(),
    )


def joined(tasks: Mapping[str, Evaluation], requirements: Requirements) -> Evaluation:
    """One evaluation of all tasks: blessed if each of them is, and nothing blocks the model.

    The number of examples is the largest of the tasks, some of which may lack labels, and `unlabelled` the smallest.
    """
    first = next(iter(tasks.values()))
    reasons = [_named(task, reason, one) for task, one in tasks.items() for reason in one.reasons]
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


def _all(tasks: Mapping[str, Evaluation], of: Callable[[Evaluation], Mapping[str, Value]]) -> dict[str, Value]:
    """What each task has by metric, by the metric's name with that of the task."""
    return {task_metric(task, name): value for task, one in tasks.items() for name, value in of(one).items()}


def _named(task: str, reason: str, evaluation: Evaluation) -> str:
    """The reason, whose first word is a metric, or else a sentence about the split."""
    return task_metric(task, reason) if reason.split(" ", 1)[0] in evaluation.metrics else f"{task}: {reason}"


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
    def every(of: Callable[[SliceMetrics], Mapping[str, Value]]) -> dict[str, Value]:
        return {task_metric(task, metric): value for task, one in tasks.items() for metric, value in of(one).items()}

    each: Sequence[SliceMetrics] = list(tasks.values())
    before: Metrics = every(lambda one: one.baseline or {})
    return SliceMetrics(
        name=name,
        metrics=every(lambda one: one.metrics),
        example_count=max(one.example_count for one in each),
        baseline=before if any(one.baseline is not None for one in each) else None,
        intervals=every(lambda one: one.intervals),
        change=every(lambda one: one.change),
    )
