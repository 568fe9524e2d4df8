"""`column: identity`: an integer that is a category already."""

from __future__ import annotations

import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.configs.features import IdentityFeature
from headrace.trainer.columns.base import CategoryColumn
from headrace.trainer.columns.batch import Batch, Categories, Raw, said_by_type
from headrace.trainer.columns.lookup import VocabularySize


class IdentityColumn(CategoryColumn[IdentityFeature]):
    """The integer itself; one outside 0..num_buckets-1 is treated as missing."""

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:  # noqa: ARG002
        """num_buckets, and one for the missing value if nothing stands in for it."""
        return self.feature.num_buckets + (self.feature.missing is None)

    def categories(self, batch: Batch) -> Categories:
        """The integers. Raises TrainingError for a data column that is not of integers."""
        raw = self.raw(batch)
        known = self.usable(raw)
        if self.feature.missing is None:
            return Categories(raw.values, known, self.feature.num_buckets)
        filled = tf.where(known, raw.values, tf.constant(self.feature.missing, tf.int64))
        return Categories(filled, tf.ones_like(known), self.feature.num_buckets)

    def usable(self, raw: Raw) -> tf.Tensor:
        """Those that are categories. Raises TrainingError for values that are no integers."""
        if not raw.is_integer:
            found, way = ("text", "vocabulary` or `hashed") if raw.is_text else ("fractional numbers", "bucketized")
            raise TrainingError(
                f"features.{self.name}: data column {self.key!r} holds {found}, and `column: identity` needs integers."
                f" Make it `column: {way}`. {said_by_type(self.key, 'int')}"
            )
        return tf.logical_and(raw.values >= 0, raw.values < self.feature.num_buckets)
