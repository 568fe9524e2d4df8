"""The label in the Transform graph."""

from __future__ import annotations

import tensorflow as tf

from configs.errors import TrainingError
from configs.label import LabelConfig
from trainer.columns.batch import Raw

NO_CLASS = -1
"""Stands for a label that is missing or none of the classes; the gate stops such data before training."""


def transform_label(label: LabelConfig, raw: Raw) -> tf.Tensor:
    """[batch]: float32 0 or 1 (binary) or the number (regression, NaN where missing), int64 class id (multiclass)."""
    if label.kind == "regression":
        if raw.is_text:
            raise TrainingError(
                f"label: data column {label.key!r} holds text, and a regression needs numbers. Set `kind: multiclass`"
                " with its `classes`, or correct the type of the data column"
            )
        return tf.cast(raw.numbers, tf.float32)
    ids = _class_ids(label, raw)
    return tf.cast(ids, tf.float32) if label.kind == "binary" else ids


def _class_ids(label: LabelConfig, raw: Raw) -> tf.Tensor:
    """int64 [batch]: the place among the classes, or NO_CLASS."""
    if raw.is_text or raw.is_integer:
        same = tf.equal(raw.text[:, tf.newaxis], [str(value) for value in label.class_values])
    elif all(isinstance(value, int) for value in label.class_values):
        same = tf.equal(raw.numbers[:, tf.newaxis], tf.constant(label.class_values, tf.float64))
    else:
        raise TrainingError(
            f"label.classes: data column {label.key!r} holds fractional numbers, and the classes are strings:"
            f" {', '.join(map(str, label.class_values))}. Give the classes as integers, or correct the column's type"
        )
    return tf.where(tf.reduce_any(same, axis=1), tf.argmax(same, axis=1), NO_CLASS)
