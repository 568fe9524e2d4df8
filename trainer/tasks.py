"""Several labels of one model, side by side in one tensor, and what is computed for each of them: the tasks.

    tasks = tasks_of(label)                         # where each task's labels and predictions are
    y = joined_labels(label, columns)               # float32 [batch, width], NaN where a label is masked
    TaskLosses(tasks, variances)(y, predictions)    # the sum of the tasks' losses, each times its `loss_weight`

So everything between the transformed examples and the exported signatures sees one label and one prediction, and a
builder of a model needs to know nothing of tasks: its last linear layer has the scores of all of them, which
`layers.head` divides. That is the same function as a linear layer for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from headrace.configs.schema.label import LabelConfig

MASKED = -2
"""The class of a label that a row may lack (`missing: mask`); NaN for a number, and in the joined labels."""
PARTS = "_headrace_parts"
"""Attribute of joined predictions: those of each task, to which Keras has attached their logits."""


@dataclass(frozen=True)
class Task:
    """One of the labels. places, outputs: its columns in the joined labels and predictions; weight: of its loss."""

    name: str
    label: LabelConfig
    places: slice
    outputs: slice
    weight: float

    def labels(self, y: Any) -> Any:
        """Its labels: [batch], or [batch, classes] of a multilabel; 0 where they are masked."""
        own = y[:, self.places]
        own = own if self.label.kind == "multilabel" else ops.reshape(own, (-1,))
        return ops.where(ops.isnan(own), ops.zeros_like(own), own)

    def mask(self, y: Any) -> Any:
        """float32 [batch]: 1 where it has a label, else 0."""
        return ops.cast(ops.logical_not(ops.isnan(y[:, self.places.start])), "float32")

    def predictions(self, predictions: Any) -> Any:
        """Its predictions: [batch, outputs]."""
        parts = getattr(predictions, PARTS, {})
        return parts[self.name] if self.name in parts else predictions[:, self.outputs]


def tasks_of(label: LabelConfig) -> tuple[Task, ...]:
    """The tasks in the order of the config; none if there is only one label."""
    tasks: list[Task] = []
    place = output = 0
    for name, task in (label.tasks or {}).items():
        part = label.parts[name]
        width = part.num_classes if part.kind == "multilabel" else 1
        places, outputs = slice(place, place + width), slice(output, output + part.num_classes)
        tasks.append(Task(name, part, places, outputs, task.loss_weight))
        place, output = places.stop, outputs.stop
    return tuple(tasks)


def joined_labels(label: LabelConfig, columns: dict[str, Any]) -> tf.Tensor:
    """Take the labels of all tasks out of a batch of transformed examples: float32 [batch, width].

    Class ids are exact, as there are at most a million classes. NaN stands for a masked label.
    """
    found = []
    for task in tasks_of(label):
        own = tf.cast(columns.pop(task.label.key), tf.float32)
        own = own if task.label.kind == "multilabel" else own[:, tf.newaxis]
        found.append(tf.where(tf.equal(own, MASKED), float("nan"), own) if _has_classes(task) else own)
    return tf.concat(found, axis=1)


def _has_classes(task: Task) -> bool:
    return task.label.optional and task.label.kind != "regression"


@keras.saving.register_keras_serializable("headrace")
class JoinedPredictions(keras.layers.Layer):
    """The predictions of all tasks side by side: float32 [batch, outputs of the task] each → [batch, outputs].

    The result knows its parts. With these, Keras computes a cross-entropy from the logits, which is exact where a
    probability rounds to 0 or 1.
    """

    def __init__(self, tasks: Sequence[str], **settings: Any) -> None:
        super().__init__(**settings)
        self.tasks = list(tasks)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "tasks": self.tasks}

    def call(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        joined = ops.concatenate(inputs, axis=1)
        setattr(joined, PARTS, dict(zip(self.tasks, inputs, strict=True)))
        return joined


class TaskLosses(keras.losses.Loss):
    """The sum of the tasks' losses, each times its weight. A masked label adds nothing.

    As with Keras' weights of examples, a batch's loss is divided by the number of its examples, so a task that half of
    the rows lack counts half as much. The squared error of a regression is divided by the variance of its labels: the
    constant prediction then has a loss of 1, whatever the label's unit, and a weight says how much a task counts.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        variances: Mapping[str, float],
        loss: Callable[[LabelConfig], keras.losses.Loss],
        reduction: str = "sum_over_batch_size",
    ) -> None:
        """
        Args:
            tasks: What is predicted.
            variances: Of the labels of each regression, in the train split.
            loss: Returns the loss of a single label for each example.
            reduction: As in Keras.
        """
        super().__init__(name="task_losses", reduction=reduction)
        self.tasks, self._variances = tuple(tasks), variances
        self._losses = {task.name: loss(task.label) for task in tasks}

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """y_true: float32 [batch, width]; y_pred: float32 [batch, outputs]. Returns float32 [batch]."""
        return sum(task.weight * self.of_task(task, y_true, y_pred) for task in self.tasks)

    def of_task(self, task: Task, y_true: Any, y_pred: Any) -> Any:
        """float32 [batch]: the losses of one task, not weighted."""
        labels, found = task.labels(y_true), self._losses[task.name]
        labels = labels if task.label.kind == "multilabel" else ops.reshape(labels, (-1, 1))
        losses = found(labels, task.predictions(y_pred)) / (self._variances.get(task.name) or 1.0)
        return task.mask(y_true) * losses


class TaskMetric(keras.metrics.Metric):
    """A metric of one task, of the examples that have its label: `price/mean_absolute_error`."""

    def __init__(self, task: Task, metric: keras.metrics.Metric) -> None:
        super().__init__(name=f"{task.name}/{metric.name}")
        self.task, self.metric = task, metric

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """y_true: float32 [batch, width]; y_pred: float32 [batch, outputs]; sample_weight: [batch]."""
        mask = self.task.mask(y_true)
        weights = mask if sample_weight is None else mask * ops.reshape(ops.cast(sample_weight, "float32"), (-1,))
        self.metric.update_state(self.task.labels(y_true), self.task.predictions(y_pred), weights)

    def result(self) -> Any:
        """The value of the metric so far."""
        return self.metric.result()

    def reset_state(self) -> None:
        """Start again."""
        self.metric.reset_state()
