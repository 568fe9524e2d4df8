"""`column: identity`: an integer that is already a category."""

from __future__ import annotations

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import IdentityFeature
from headrace.trainer.columns.base import Batch, Categories, CategoryColumn, VocabularySize
from headrace.trainer.columns.raw import RawColumn, suggest_type


class IdentityColumn(CategoryColumn[IdentityFeature]):
    """The integer itself; integers outside 0..num_buckets-1 count as missing."""

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:
        """`num_buckets`, and one category for missing values unless the config gives a substitute."""
        return self.feature.num_buckets + (self.feature.missing is None)

    def categories(self, batch: Batch) -> Categories:
        """The integers. Raises TrainingError if the data column does not hold integers."""
        raw = self.raw(batch)
        known = self.is_valid(raw)
        if self.feature.missing is None:
            return Categories(raw.values, known, self.feature.num_buckets)
        filled = tf.where(known, raw.values, tf.constant(self.feature.missing, tf.int64))
        return Categories(filled, tf.ones_like(known), self.feature.num_buckets)

    def is_valid(self, raw: RawColumn) -> tf.Tensor:
        """Whether values are in range. Raises TrainingError if they are not integers."""
        if not raw.is_integer:
            found, way = ("text", "vocabulary` or `hashed") if raw.is_text else ("fractional numbers", "bucketized")
            raise TrainingError(
                f"features.{self.name}: data column {self.key!r} holds {found}, and `column: identity` needs integers."
                f" Make it `column: {way}`. {suggest_type(self.key, 'int')}"
            )
        return tf.logical_and(raw.values >= 0, raw.values < self.feature.num_buckets)
