"""`column: crossed`: the hash bucket of a combination of values."""

from __future__ import annotations

import functools

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import CrossedFeature
from headrace.trainer.columns.base import Batch, Categories, CategoryColumn, VocabularySize

SEPARATOR = "_X_"
"""Separates the texts of the keys, as in TensorFlow's own crosses."""


class CrossedColumn(CategoryColumn[CrossedFeature]):
    """FarmHash fingerprint64 of the keys' texts joined by `_X_`, modulo the number of buckets.

    The text of a feature is its category in decimal, the text of a data column its value.
    """

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:
        """`hash_buckets`, and one category for examples in which a key is missing."""
        return self.feature.hash_buckets + 1

    def categories(self, batch: Batch) -> Categories:
        """The hash buckets; known if every key is."""
        texts, known = zip(*(self._text(key, batch) for key in self.feature.keys), strict=True)
        ids = tf.strings.to_hash_bucket_fast(tf.strings.join(texts, SEPARATOR), self.feature.hash_buckets)
        return Categories(ids, functools.reduce(tf.logical_and, known), self.feature.hash_buckets)

    def _text(self, key: str, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        column = batch.columns.get(key) if key != self.name else None
        if column is None:
            return batch.raw(key).filled_text(None)
        if not isinstance(column, CategoryColumn):
            raise TrainingError(
                f"features.{self.name}: the key {key!r} is a feature that is a number, and a cross needs categories."
                f" Make {key!r} `column: bucketized`, or cross a bucketized feature of the same column that you add"
                " under another name"
            )
        categories = column.single_categories(batch)
        return tf.strings.as_string(categories.ids), categories.known
