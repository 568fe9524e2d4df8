"""`column: numeric`: a number, scaled."""

from __future__ import annotations

import tensorflow as tf

from headrace.configs.features import NumericFeature
from headrace.trainer.columns.base import NumberColumn
from headrace.trainer.columns.batch import Batch, Wish
from headrace.trainer.columns.statistics import Moments


class NumericColumn(NumberColumn[NumericFeature]):
    """The number, missing values filled, scaled: computed in float64, so that large integers keep their digits."""

    @property
    def key(self) -> str:
        """The data column."""
        return self.feature.key or self.name

    def wishes(self) -> list[Wish]:
        """The moments, where the scaling or the missing values need them."""
        needed = self.feature.missing == "mean" or self.feature.normalize in ("z_score", "min_max")
        return [Moments(self.key)] if needed else []

    def transform(self, batch: Batch) -> tf.Tensor:
        """(x - mean) / deviation, (x - min) / (max - min), sign(x) log(1 + |x|), or x."""
        numbers = self.numbers(batch)
        if not self.wishes():
            return tf.cast(self._scaled(self._filled(numbers, self.feature.missing)), tf.float32)
        mean, deviation, least, greatest = tf.unstack(batch.answer(Moments(self.key)))
        x = self._filled(numbers, mean if self.feature.missing == "mean" else self.feature.missing)
        if self.feature.normalize == "z_score":
            # a column of equal values has a deviation of rounding errors, so its range decides
            x = tf.where(greatest > least, tf.math.divide_no_nan(x - mean, deviation), tf.zeros_like(x))
        elif self.feature.normalize == "min_max":
            x = tf.math.divide_no_nan(x - least, greatest - least)
        return tf.cast(self._scaled(x), tf.float32)

    def numbers(self, batch: Batch) -> tf.Tensor:
        """float64 [batch], NaN where missing."""
        return batch.raw(self.key).numbers

    @staticmethod
    def _filled(numbers: tf.Tensor, missing: object) -> tf.Tensor:
        return tf.where(tf.math.is_nan(numbers), tf.cast(missing, tf.float64), numbers)

    def _scaled(self, x: tf.Tensor) -> tf.Tensor:
        return tf.sign(x) * tf.math.log1p(tf.abs(x)) if self.feature.normalize == "log" else x
