"""Several labels of one model, the tasks, and where they are in the tensors that they share.

    tasks = tasks_of(label)                         # where each task's labels and predictions are
    y = joined_labels(label, columns)               # float32 [batch, width], NaN where a label is masked

So everything between the transformed examples and the exported signatures sees one label and one prediction, and a
builder of a model needs to know nothing of tasks: its last linear layer has the scores of all of them, which
`layers.head` divides. That is the same function as a linear layer for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from headrace.configs.schema.label import LabelConfig

MASKED = -2
"""The class of a label that a row may lack (`missing: mask`); NaN for a number, and in the joined labels."""


@dataclass(frozen=True)
class Task:
    """One of the labels.

    label_slice, output_slice: its columns in the joined labels and predictions; weight: of its loss.
    """

    name: str
    label: LabelConfig
    label_slice: slice
    output_slice: slice
    weight: float


def tasks_of(label: LabelConfig) -> tuple[Task, ...]:
    """The tasks in the order of the config; none if there is only one label."""
    tasks: list[Task] = []
    place = output = 0
    for name, task in (label.tasks or {}).items():
        part = label.parts[name]
        width = part.num_classes if part.kind == "multilabel" else 1
        own, outputs = slice(place, place + width), slice(output, output + part.num_classes)
        tasks.append(Task(name, part, own, outputs, task.loss_weight))
        place, output = own.stop, outputs.stop
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


def known(labels: Any) -> tf.Tensor:
    """Those of joined labels that are not masked: [values]."""
    return tf.boolean_mask(labels, ~tf.math.is_nan(labels))


def _has_classes(task: Task) -> bool:
    return task.label.optional and task.label.kind != "regression"
