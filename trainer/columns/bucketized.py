"""`column: bucketized`: the bucket that a number falls into."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from headrace.configs.schema.features import BucketizedFeature
from headrace.trainer.columns.analyzers.numbers import QuantileBoundaries
from headrace.trainer.columns.base import Analyzer, Batch, Categories, CategoryColumn, VocabularySize
from headrace.trainer.columns.raw import RawColumn


class BucketizedColumn(CategoryColumn[BucketizedFeature]):
    """Bucket i holds boundaries[i-1] <= x < boundaries[i].

    A number on a boundary falls into the bucket above, even where the data column is float32 and the boundary has no
    exact float32: 41.8 in the data equals 41.8 in the config.
    """

    def analyzers(self) -> list[Analyzer]:
        """The quantiles, unless the config gives boundaries."""
        return [QuantileBoundaries(self.key, self.feature.buckets)] if self.feature.buckets is not None else []

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:
        """The buckets, and one category for missing values unless the config gives a substitute."""
        return self.num_known + (self.feature.missing is None)

    @property
    def num_known(self) -> int:
        """Number of buckets."""
        return self.feature.buckets or len(self.feature.boundaries or ()) + 1

    def categories(self, batch: Batch) -> Categories:
        """The bucket of each example."""
        raw = batch.raw(self.key)
        numbers, missing = raw.numbers, tf.math.is_nan(raw.numbers)
        if self.feature.missing is not None:
            numbers, missing = tf.where(missing, _as_data(self.feature.missing, raw), numbers), tf.zeros_like(missing)
        # UpperBound is what tf.searchsorted(side="right") wraps in ten further operations.
        boundaries = self._boundaries(batch, raw)
        ids = tf.raw_ops.UpperBound(sorted_inputs=[boundaries], values=[numbers], out_type=tf.int64)
        return Categories(tf.squeeze(ids, 0), tf.logical_not(missing), self.num_known)

    def _boundaries(self, batch: Batch, raw: RawColumn) -> tf.Tensor:
        if self.feature.boundaries is not None:
            return _as_data(self.feature.boundaries, raw)
        return batch.result(*self.analyzers())


def _as_data(numbers: float | tuple[float, ...], raw: RawColumn) -> tf.Tensor:
    """float64, rounded as the data column's values are."""
    return tf.constant(np.asarray(numbers, np.float32 if raw.values.dtype == tf.float32 else np.float64), tf.float64)
