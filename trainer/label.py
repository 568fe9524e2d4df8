"""The label in the Transform graph."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.configs.label import LabelConfig
from headrace.trainer.columns import Batch, Column, Raw, TextColumn, VocabularySize
from headrace.trainer.columns.batch import said_by_type

NO_CLASS = -1
"""Stands for a label that is missing or none of the classes; the gate stops such data before training."""


def transform_label(label: LabelConfig, batch: Batch) -> tf.Tensor:
    """[batch]: float32 0 or 1 (binary) or the number (regression, NaN where missing), int64 class id (multiclass,
    next_word).
    """
    raw = batch.raw(label.key)
    if label.kind == "regression":
        if raw.is_text:
            raise TrainingError(
                f"label: data column {label.key!r} holds text, and a regression needs numbers. Set `kind: multiclass`"
                f" with its `classes`. {said_by_type(label.key, 'float')}"
            )
        return tf.cast(raw.numbers, tf.float32)
    ids = _word_ids(label, raw, batch) if label.kind == "next_word" else _class_ids(label, raw)
    return tf.cast(ids, tf.float32) if label.kind == "binary" else ids


def with_vocabulary(label: LabelConfig, columns: Mapping[str, Column], vocabulary_size: VocabularySize) -> LabelConfig:
    """A next_word label with the classes that its text's vocabulary gives it; any other as it is."""
    if label.kind != "next_word":
        return label
    return label.with_classes(text_of(label, columns).vocabulary.size(vocabulary_size) + 1)


def text_of(label: LabelConfig, columns: Mapping[str, Column]) -> TextColumn:
    """The text that a next_word label follows."""
    column = columns[label.text or ""]
    assert isinstance(column, TextColumn)  # noqa: S101 - a rule of the config
    return column


def _word_ids(label: LabelConfig, raw: Raw, batch: Batch) -> tf.Tensor:
    """int64 [batch]: the first word's place in the vocabulary of the text; for one outside it, or where there is none
    but marks that the text leaves out, the class behind all words; or NO_CLASS.
    """
    column = text_of(label, batch.columns)
    words = column.tokens(raw.text)[:, :1].to_tensor("", shape=[None, 1])[:, 0]
    ids, size = column.vocabulary.look_up(words, batch)
    unknown = tf.cast(size - column.feature.oov_buckets, tf.int64)
    return tf.where(raw.present, tf.minimum(ids, unknown), tf.constant(NO_CLASS, tf.int64))


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
