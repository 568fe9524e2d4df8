"""The preprocessing_fn that TFX's Transform traces: the config's features and label as one graph."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.trainer import columns
from headrace.trainer.columns import Batch, Column, RawColumn, TextColumn, VocabularySize
from headrace.trainer.columns.base import Analyzer, prefix_errors
from headrace.trainer.columns.raw import MultivaluedRawColumn, RawTensor, split_values, suggest_type, with_float64
from headrace.trainer.sections import TrainerSections
from headrace.trainer.target import target_ids, with_target, with_target_classes
from headrace.trainer.tasks import MASKED

NO_CLASS = -1
"""Stands for a label that is missing or not one of the classes; the data gate stops such data before training."""


def preprocessing_fn(inputs: Mapping[str, RawTensor], custom_config: Mapping[str, str]) -> dict[str, tf.Tensor]:
    """Convert raw data columns to features and label, each of shape [batch], or [batch, values] if multivalued.

    Transform traces this about ten times, so it has no side effects.

    custom_config: {"config": TrainerSections as JSON}, and {"by_span": "yes"} if results for each span may be cached.
    """
    sections = TrainerSections.from_json(custom_config["config"])
    return transform(inputs, sections, by_span=bool(custom_config.get("by_span")))


def transform(
    inputs: Mapping[str, RawTensor],
    sections: TrainerSections,
    *,
    by_span: bool = False,
    results: Mapping[Analyzer, tf.Tensor] | None = None,
) -> dict[str, tf.Tensor]:
    """`preprocessing_fn` with parsed sections. results: of the columns' analyzers; None: TFT computes them."""
    built = columns.build(sections.features)
    every = with_target(built, sections.label)
    batch = Batch(with_float64(inputs, sections.float64), every, by_span=by_span, results=results)
    outputs = {part.key: transform_label(part, batch) for part in sections.label.parts.values()}
    if sections.label.weight is not None:
        outputs[sections.label.weight] = transform_weight(sections.label.weight, batch)
    for name, column in built.items():
        with prefix_errors(name):
            outputs[name] = column.transform(batch)
    return outputs


def transform_label(label: LabelConfig, batch: Batch) -> tf.Tensor:
    """The label, [batch], with a dtype for each kind.

    binary: float32 0 or 1; regression: float32, NaN where missing; multiclass and next_word: int64 class id;
    multilabel: float32 [batch, classes], 1 for the classes of an example; text: int64 [batch, words], see `target`. A
    label that a row may lack is MASKED, or NaN.
    """
    values = _transform_label(label, batch)
    if not label.optional or label.kind == "regression":
        return values
    return tf.where(_lacking(label, batch), tf.cast(MASKED, values.dtype), values)


def _lacking(label: LabelConfig, batch: Batch) -> tf.Tensor:
    """Which rows have no label: bool [batch], or [batch, 1] of a multilabel."""
    if label.kind != "multilabel":
        return ~batch.raw(label.key).present
    values = _all_values(label, batch.tensor(label.key))
    rows, number = tf.repeat(tf.range(tf.size(values.lengths)), values.lengths), tf.size(values.lengths)
    return tf.equal(tf.math.unsorted_segment_max(tf.cast(values.present, tf.int32), rows, number), 0)[:, tf.newaxis]


def _all_values(label: LabelConfig, tensor: RawTensor) -> MultivaluedRawColumn:
    return MultivaluedRawColumn(label.key, split_values(tensor, label.separator), lambda column: column.present)


def _transform_label(label: LabelConfig, batch: Batch) -> tf.Tensor:
    if label.kind == "text":
        return target_ids(label, batch)
    if label.kind == "multilabel":
        return multi_hot(label, batch.tensor(label.key))
    raw = batch.raw(label.key)
    if label.kind == "regression":
        if raw.is_text:
            raise TrainingError(
                f"label: data column {label.key!r} holds text, and a regression needs numbers. Set `kind: multiclass`"
                f" with its `classes`. {suggest_type(label.key, 'float')}"
            )
        return tf.cast(raw.numbers, tf.float32)
    ids = _word_ids(label, raw, batch) if label.kind == "next_word" else _class_ids(label, raw)
    return tf.cast(ids, tf.float32) if label.kind == "binary" else ids


def multi_hot(label: LabelConfig, tensor: RawTensor) -> tf.Tensor:
    """float32 [batch, classes]: 1 for each class of an example, else 0.

    A row is NO_CLASS if one of its values is not a class, or it has no value, unless `label.missing` is none.
    """
    values = _all_values(label, tensor)
    ids, number = _class_ids(label, values), label.num_classes
    rows = tf.repeat(tf.range(tf.size(values.lengths)), values.lengths)
    valid = (ids >= 0) | (~values.present if label.missing == "none" else tf.zeros_like(ids, tf.bool))
    hot = tf.math.unsorted_segment_max(tf.one_hot(ids, number), rows, tf.size(values.lengths))
    wrong = tf.math.unsorted_segment_sum(tf.cast(~valid, tf.int32), rows, tf.size(values.lengths)) > 0
    return tf.ensure_shape(tf.where(wrong[:, tf.newaxis], tf.cast(NO_CLASS, tf.float32), hot), [None, number])


def transform_weight(column: str, batch: Batch) -> tf.Tensor:
    """The weights of the examples, float32 [batch]; NaN where missing."""
    raw = batch.raw(column)
    if raw.is_text:
        raise TrainingError(
            f"label.weight: data column {column!r} holds text, and weights are numbers. {suggest_type(column, 'float')}"
        )
    return tf.cast(raw.numbers, tf.float32)


def with_vocabulary(label: LabelConfig, columns: Mapping[str, Column], vocabulary_size: VocabularySize) -> LabelConfig:
    """Add the classes to a next_word or text label, from its vocabulary; other labels are returned unchanged."""
    if label.kind == "text":
        return with_target_classes(label, vocabulary_size)
    if label.kind != "next_word":
        return label
    return label.with_classes(text_of(label, columns).vocabulary.size(vocabulary_size) + 1)


def text_of(label: LabelConfig, columns: Mapping[str, Column]) -> TextColumn:
    """The text that a next_word label follows."""
    column = columns[label.text or ""]
    assert isinstance(column, TextColumn)  # noqa: S101 - a rule of the config
    return column


def _word_ids(label: LabelConfig, raw: RawColumn, batch: Batch) -> tf.Tensor:
    """int64 [batch]: the first word's id in the vocabulary of the text, or NO_CLASS where the label is missing.

    Words outside the vocabulary, and labels without a word, get the class after all words.
    """
    column = text_of(label, batch.columns)
    words = column.tokens(raw.text)[:, :1].to_tensor("", shape=[None, 1])[:, 0]
    ids, size = column.vocabulary.look_up(words, batch)
    unknown = tf.cast(size - column.feature.oov_buckets, tf.int64)
    return tf.where(raw.present, tf.minimum(ids, unknown), tf.constant(NO_CLASS, tf.int64))


def _class_ids(label: LabelConfig, raw: RawColumn) -> tf.Tensor:
    """int64 [batch], or [values] of a multivalued column: the index of the class, or NO_CLASS."""
    if raw.is_text or raw.is_integer:
        same = tf.equal(raw.text[:, tf.newaxis], [str(value) for value in label.class_values])
    elif all(isinstance(value, int) for value in label.class_values):
        same = tf.equal(raw.numbers[:, tf.newaxis], tf.constant(label.class_values, tf.float64))
    else:
        raise TrainingError(
            f"label.classes: data column {label.key!r} holds fractional numbers, and the classes are strings:"
            f" {', '.join(map(str, label.class_values))}. List the classes as integers, or correct the column's type"
        )
    return tf.where(tf.reduce_any(same, axis=1), tf.argmax(same, axis=1), NO_CLASS)
