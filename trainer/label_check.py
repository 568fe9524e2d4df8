"""Labels that are none of the classes, or no numbers: nothing is trained on them.

The gate stops such data before the Trainer; with `data.on_anomaly: warn` it only says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.configs.label import LabelConfig
from headrace.trainer.input.packing import plain

MARK = "label out of range"


def checked(label: LabelConfig) -> Callable[[tf.Tensor], tf.Tensor]:
    """A step of the input pipeline that gives the labels back, and fails where one of them is none."""
    if label.kind not in ("binary", "multiclass", "regression"):
        return tf.identity

    @plain
    def check(labels: tf.Tensor) -> tf.Tensor:
        wrong = _wrong(label, labels)
        data = [MARK, tf.math.count_nonzero(wrong), tf.size(labels), tf.boolean_mask(labels, wrong)[:1]]
        with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(tf.reduce_any(wrong)), data)]):
            return tf.identity(labels)

    return check


def _wrong(label: LabelConfig, labels: tf.Tensor) -> tf.Tensor:
    """Which labels are none: bool [batch]."""
    if label.kind == "regression":
        return tf.logical_not(tf.math.is_finite(labels))
    if label.kind == "binary":
        return tf.logical_not(tf.logical_or(tf.equal(labels, 0), tf.equal(labels, 1)))
    return tf.logical_or(labels < 0, labels >= label.num_classes)


@contextmanager
def labels_told(label: LabelConfig) -> Iterator[None]:
    """Turn what `checked` fails with into a TrainingError."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(rf"{MARK}\W*(\d+)\W*(\d+)[\s\[\]]*([-\w.]+)", str(error))
        if found is None:
            raise
        raise TrainingError(_message(label, *found.groups())) from error


def _message(label: LabelConfig, wrong: str, of: str, value: str) -> str:
    if label.kind == "regression":
        what = f"is missing or infinite in {wrong} of {of} examples that are read together"
    else:
        classes = label.class_values
        allowed = ", ".join(map(str, classes)) if len(classes) <= 8 else f"{len(classes):,} classes"
        what = f"is none of its classes ({allowed}), or missing, in {wrong} of {of} examples that are read together"
        what += "" if value.startswith("-1") else f": class number {value}"
    return (
        f"label {label.key!r}: it {what}. Nothing is trained on such examples: mend or remove them, or correct"
        " `label:`; the report's section of the data names the values"
    )
