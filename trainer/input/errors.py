"""Errors in examples that appear while they are read: damaged files, and labels that are not among the classes.

The data gate stops such labels before the Trainer; with `data.on_anomaly: warn` it only reports them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.input.packing import Packing, no_autograph
from headrace.trainer.input.transformed_columns import REBUILD, are_columns
from headrace.trainer.tasks import tasks_of

_NOT_AN_EXAMPLE = (tf.errors.InvalidArgumentError, UnicodeDecodeError)  # the latter if the message quotes the bytes
READ_ERRORS = (tf.errors.DataLossError, tf.errors.NotFoundError, *_NOT_AN_EXAMPLE)
"""What a damaged, foreign or missing file raises, in a dataset and in the training step that reads from it."""
_LABEL_OUT_OF_RANGE = "label out of range"
"""Start of the assertion's message, from which `explain_label_errors` recognizes it."""


@contextmanager
def explain_file_errors(files: Sequence[str], packing: Packing) -> Iterator[None]:
    """Raise TrainingError with the name of the file for errors that these files cause."""
    try:
        yield
    except READ_ERRORS as error:
        for file in () if are_columns(files) else files:  # a damaged file of columns cannot be opened
            if damage := _find_damage(file, packing):
                raise TrainingError(damage) from error
        raise


def _find_damage(file: str, packing: Packing) -> str | None:
    """Describe what is wrong with the file and what to do; None if it can be read completely."""
    records = 0
    try:
        for record in tf.data.TFRecordDataset(file, "GZIP" if file.endswith(".gz") else ""):
            records += 1
            packing.parse(record[tf.newaxis])
    except tf.errors.NotFoundError:
        return f"{file} is gone: something removed it during the training. {REBUILD}"
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError):
        return f"{file} is damaged after {records:,} intact records. {REBUILD}"
    except UnicodeDecodeError:
        return f"{file}, record {records:,} is not a tf.Example. {REBUILD}"
    except tf.errors.InvalidArgumentError as error:
        return f"{file}, record {records:,}: {error.message.split('[[')[0].strip()}. {REBUILD}"
    return None


def label_check(label: LabelConfig) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a stage of the input pipeline that passes labels through, and fails if one is not valid."""
    if label.kind == "next_word":
        return tf.identity
    if label.tasks is None:
        return _check_of(label, _LABEL_OUT_OF_RANGE)
    checks = [(task, _check_of(task.label, _of_task(task.name))) for task in tasks_of(label)]

    @no_autograph
    def check_all(labels: tf.Tensor) -> tf.Tensor:
        checked = [check(labels[:, task.label_slice]) for task, check in checks]
        return tf.concat(checked, axis=1)

    return check_all


def _of_task(name: str) -> str:
    """Start of the message of a task's assertion."""
    return f"{_LABEL_OUT_OF_RANGE} in {name}:"


def _check_of(label: LabelConfig, message: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """The stage for one label. message: start of the assertion's message."""

    @no_autograph
    def check(labels: tf.Tensor) -> tf.Tensor:
        wrong = _is_invalid(label, labels)
        data = [
            message,
            tf.math.count_nonzero(wrong),
            tf.size(wrong),
            tf.boolean_mask(labels, wrong)[:1],
        ]
        with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(tf.reduce_any(wrong)), data)]):
            return tf.identity(labels)

    return check


def _is_invalid(label: LabelConfig, labels: tf.Tensor) -> tf.Tensor:
    """Bool [batch]: which labels are not valid. NaN is valid where a row may lack its label."""
    wrong = _is_no_label(label, labels)
    if label.optional:
        lacks = tf.math.is_nan(labels)
        return wrong & ~(tf.reduce_all(lacks, axis=1) if label.kind == "multilabel" else lacks)
    return wrong


def _is_no_label(label: LabelConfig, labels: tf.Tensor) -> tf.Tensor:
    if label.kind == "regression":
        return tf.logical_not(tf.math.is_finite(labels))
    if label.kind == "binary":
        return tf.logical_not(tf.logical_or(tf.equal(labels, 0), tf.equal(labels, 1)))
    if label.kind == "text":
        return labels[:, 0] < 0
    if label.kind == "multilabel":
        return tf.reduce_any(~(tf.equal(labels, 0) | tf.equal(labels, 1)), axis=1)
    return tf.logical_or(labels < 0, labels >= label.num_classes)


@contextmanager
def explain_label_errors(label: LabelConfig) -> Iterator[None]:
    """Turn the failure of a `label_check` into a TrainingError."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        for name, part in label.parts.items():
            start = re.escape(_of_task(name) if name else _LABEL_OUT_OF_RANGE)
            found = re.search(rf"{start}\W*(\d+)\W*(\d+)[\s\[\]]*([-\w.]+)", str(error))
            if found is not None:
                raise TrainingError(_label_message(part, *found.groups())) from error
        raise


def _label_message(label: LabelConfig, wrong: str, total: str, value: str) -> str:
    if label.kind == "regression":
        what = f"is missing or infinite in {wrong} of {total} examples read at once"
    elif label.kind == "text":
        what = f"is missing in {wrong} of {total} examples read at once"
    else:
        classes = label.class_values
        allowed = ", ".join(map(str, classes)) if len(classes) <= 8 else f"{len(classes):,} classes"
        what = f"is missing or not one of its classes ({allowed}) in {wrong} of {total} examples read at once"
        what += "" if value.startswith("-1") else f": class number {value}"
    return (
        f"label {label.key!r}: it {what}. Training does not use such examples: correct or remove them, or correct"
        " `label:`; the report's section on the data names the values"
    )
