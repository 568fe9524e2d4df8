"""`column: hashed`: the hash bucket of a string or integer."""

from __future__ import annotations

import tensorflow as tf

from headrace.configs.schema.features import HashedFeature
from headrace.trainer.columns.base import Batch, Categories, CategoryColumn, VocabularySize


class HashedColumn(CategoryColumn[HashedFeature]):
    """FarmHash fingerprint64 of the text, modulo the number of buckets."""

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:
        """`hash_buckets`, and one category for missing values unless the config gives a substitute."""
        return self.feature.hash_buckets + (self.feature.missing is None)

    def categories(self, batch: Batch) -> Categories:
        """The hash bucket of each example or value."""
        text, known = self.raw(batch).filled_text(self.feature.missing)
        ids = tf.strings.to_hash_bucket_fast(text, self.feature.hash_buckets)
        return Categories(ids, known, self.feature.hash_buckets)
