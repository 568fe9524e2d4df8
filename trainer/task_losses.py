"""The losses and metrics of several labels of one model, and the layer that joins their predictions.

    TaskLosses(tasks, variances, loss)(y, predictions)      # the sum of the tasks' losses, each times its `loss_weight`

y is what `joined_labels` returns, and predictions the output of `JoinedPredictions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
from keras import ops

from headrace.configs.schema.label import LabelConfig
from headrace.trainer.tasks import Task

PARTS = "_headrace_parts"
"""Attribute of joined predictions: those of each task, to which Keras has attached their logits."""


def labels_of(task: Task, y: Any) -> Any:
    """The labels of a task: [batch], or [batch, classes] of a multilabel; 0 where they are masked."""
    own = y[:, task.label_slice]
    own = own if task.label.kind == "multilabel" else ops.reshape(own, (-1,))
    return ops.where(ops.isnan(own), ops.zeros_like(own), own)


def mask_of(task: Task, y: Any) -> Any:
    """float32 [batch]: 1 where an example has the label of the task, else 0."""
    return ops.cast(ops.logical_not(ops.isnan(y[:, task.label_slice.start])), "float32")


def predictions_of(task: Task, predictions: Any) -> Any:
    """The predictions of a task: [batch, outputs]."""
    parts = getattr(predictions, PARTS, {})
    return parts[task.name] if task.name in parts else predictions[:, task.output_slice]


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
        labels, found = labels_of(task, y_true), self._losses[task.name]
        labels = labels if task.label.kind == "multilabel" else ops.reshape(labels, (-1, 1))
        losses = found(labels, predictions_of(task, y_pred)) / (self._variances.get(task.name) or 1.0)
        return mask_of(task, y_true) * losses


class TaskMetric(keras.metrics.Metric):
    """A metric of one task, of the examples that have its label: `price/mean_absolute_error`."""

    def __init__(self, task: Task, metric: keras.metrics.Metric) -> None:
        super().__init__(name=f"{task.name}/{metric.name}")
        self.task, self.metric = task, metric

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """y_true: float32 [batch, width]; y_pred: float32 [batch, outputs]; sample_weight: [batch]."""
        mask = mask_of(self.task, y_true)
        weights = mask if sample_weight is None else mask * ops.reshape(ops.cast(sample_weight, "float32"), (-1,))
        self.metric.update_state(labels_of(self.task, y_true), predictions_of(self.task, y_pred), weights)

    def result(self) -> Any:
        """The value of the metric so far."""
        return self.metric.result()

    def reset_state(self) -> None:
        """Start again."""
        self.metric.reset_state()
