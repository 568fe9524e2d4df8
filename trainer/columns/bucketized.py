"""`column: bucketized`: the bucket that a number falls in."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from headrace.configs.features import BucketizedFeature
from headrace.trainer.columns.base import CategoryColumn
from headrace.trainer.columns.batch import Batch, Categories, Raw, Wish
from headrace.trainer.columns.lookup import VocabularySize
from headrace.trainer.columns.statistics import Quantiles


class BucketizedColumn(CategoryColumn[BucketizedFeature]):
    """Bucket i holds boundaries[i-1] <= x < boundaries[i].

    A number on a boundary is in the bucket above, also where the data column is float32 and the boundary has no exact
    float32: 41.8 in the data is 41.8 in the config.
    """

    def wishes(self) -> list[Wish]:
        """The quantiles, where no boundaries are given."""
        return [Quantiles(self.key, self.feature.buckets)] if self.feature.buckets is not None else []

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:  # noqa: ARG002
        """The buckets, and one for the missing value if nothing stands in for it."""
        return self.num_known + (self.feature.missing is None)

    @property
    def num_known(self) -> int:
        """Number of buckets."""
        return self.feature.buckets or len(self.feature.boundaries or ()) + 1

    def categories(self, batch: Batch) -> Categories:
        """The buckets."""
        raw = batch.raw(self.key)
        numbers, missing = raw.numbers, tf.math.is_nan(raw.numbers)
        if self.feature.missing is not None:
            numbers, missing = tf.where(missing, _as_data(self.feature.missing, raw), numbers), tf.zeros_like(missing)
        # the op under tf.searchsorted(side="right"), which puts ten others around it
        boundaries = self._boundaries(batch, raw)
        ids = tf.raw_ops.UpperBound(sorted_inputs=[boundaries], values=[numbers], out_type=tf.int64)
        return Categories(tf.squeeze(ids, 0), tf.logical_not(missing), self.num_known)

    def _boundaries(self, batch: Batch, raw: Raw) -> tf.Tensor:
        if self.feature.boundaries is not None:
            return _as_data(self.feature.boundaries, raw)
        return batch.answer(*self.wishes())


def _as_data(numbers: float | tuple[float, ...], raw: Raw) -> tf.Tensor:
    """float64 of the same rounding as the data column's."""
    return tf.constant(np.asarray(numbers, np.float64 if raw.is_integer else np.float32), tf.float64)
