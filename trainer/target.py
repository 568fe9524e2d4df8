"""The texts of a `text` label as classes: the end of the text, the words of its vocabulary, and all other words as one.

    columns = with_target(columns.build(sections.features), sections.label)   # what Transform learns from
    ids = target_ids(sections.label, batch)                                   # int64 [batch, width], PADDING at the end
    label = with_target_classes(sections.label, vocabulary_size)              # with their number

The end is class 0, word i of the vocabulary is class i + 1, and the last class stands for all other words. A text of
more words than `max_tokens` has no end within them, so the model does not learn to end there.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.columns.base import PADDING, Batch, Column, VocabularySize
from headrace.trainer.columns.text import TextColumn

END = 0
"""The class of the end of a text."""
START = -1
"""What comes before the first word, in place of a class."""
END_NAME = "(end)"
"""What stands for the end where classes are named."""


def target_column(label: LabelConfig) -> TextColumn:
    """The column that cuts the label's texts into words, and learns their vocabulary under the label's name."""
    return TextColumn(label.key, label.text_feature)


def with_target(columns: Mapping[str, Column], label: LabelConfig) -> dict[str, Column]:
    """The features' columns, and that of the label if it is a text: all that learn from the train split."""
    return {**columns, label.key: target_column(label)} if label.kind == "text" else dict(columns)


def target_ids(label: LabelConfig, batch: Batch) -> tf.Tensor:
    """The classes of the words of each label and its end: int64 [batch, max_tokens + 1].

    PADDING follows the end, and is all that there is where the label is missing. batch: with the column of
    `with_target`.
    """
    column, raw = target_column(label), batch.raw(label.key)
    most = label.text_feature.max_tokens or 0
    every = column.tokens(raw.text)
    ids, size = column.vocabulary.look_up(every[:, :most], batch)
    classes = tf.ragged.map_flat_values(lambda flat: tf.minimum(flat, tf.cast(size - 1, tf.int64)) + 1, ids)
    ended = tf.cast(every.row_lengths() <= most, tf.int64)
    ends = tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(ended)], tf.constant(END, tf.int64)), ended)
    padded = tf.concat([classes, ends], axis=1).to_tensor(tf.constant(PADDING, tf.int64), shape=[None, most + 1])
    missing = ~raw.present[:, tf.newaxis]
    return tf.ensure_shape(tf.where(missing, tf.constant(PADDING, tf.int64), padded), [None, most + 1])


def cut(label: tf.Tensor) -> tf.Tensor:
    """The labels [batch, words] without the positions that are padding in all of them."""
    longest = tf.reduce_max(tf.reduce_sum(tf.cast(label >= 0, tf.int32), axis=1))
    return label[:, : tf.maximum(longest, 1)]


def with_target_classes(label: LabelConfig, vocabulary_size: VocabularySize) -> LabelConfig:
    """The label with the number of its classes. Raises TrainingError if the learned vocabulary is empty."""
    try:
        words = target_column(label).vocabulary.size(vocabulary_size)
    except TrainingError as error:
        of_label = str(error).replace(f"features.{label.key}", "label.words").replace(", or remove the feature", "")
        raise TrainingError(of_label) from error
    return label.with_classes(words + 2)
