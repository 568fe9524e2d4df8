"""`column: boolean`: false or true."""

from __future__ import annotations

import tensorflow as tf

from headrace.configs.schema.features import FALSE_WORDS, TRUE_WORDS, BooleanFeature
from headrace.trainer.columns.base import Batch, Categories, CategoryColumn, VocabularySize
from headrace.trainer.columns.raw import RawColumn


class BooleanColumn(CategoryColumn[BooleanFeature]):
    """0 for false, 1 for true; anything else counts as missing."""

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:
        """2, and one category for missing values unless the config gives a substitute."""
        return 2 + (self.feature.missing is None)

    def categories(self, batch: Batch) -> Categories:
        """Whether the value is one of the words for true."""
        raw = self.raw(batch)
        true, false = (self._is_one_of(raw, words) for words in (TRUE_WORDS, FALSE_WORDS))
        ids, known = tf.cast(true, tf.int64), tf.logical_or(true, false)
        if self.feature.missing is None:
            return Categories(ids, known, 2)
        return Categories(tf.where(known, ids, int(self.feature.missing)), tf.ones_like(known), 2)

    @staticmethod
    def _is_one_of(raw: RawColumn, words: tuple[str, ...]) -> tf.Tensor:
        """Bool [batch]. Of the words, the last is a number."""
        if raw.is_text:
            text = tf.strings.lower(tf.strings.strip(raw.values))
            return tf.reduce_any(tf.equal(text[:, tf.newaxis], tf.constant(words)), axis=1)
        return tf.equal(raw.values, tf.cast(int(words[-1]), raw.values.dtype))
