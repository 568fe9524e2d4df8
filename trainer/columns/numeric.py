"""`column: numeric`: a scaled number."""

from __future__ import annotations

import tensorflow as tf

from headrace.configs.schema.features import NumericFeature
from headrace.trainer.columns.analyzers.numbers import Moments
from headrace.trainer.columns.base import Analyzer, Batch, NumberColumn
from headrace.trainer.columns.raw import RawColumn, RawTensor


class NumericColumn(NumberColumn[NumericFeature]):
    """The number with missing values filled, scaled in float64 so that large integers keep their digits."""

    @property
    def key(self) -> str:
        """The data column."""
        return self.feature.key or self.name

    def analyzers(self) -> list[Analyzer]:
        """The moments, if the scaling or the substitute for missing values needs them."""
        needed = self.feature.missing == "mean" or self.feature.normalize in ("z_score", "min_max")
        return [Moments(self.key)] if needed else []

    def transform(self, batch: Batch) -> tf.Tensor:
        """(x - mean) / deviation, (x - min) / (max - min), sign(x) log(1 + |x|), or x.

        Columns with the same settings call one function, which is traced once: a graph takes time per operation.
        """
        moments = batch.result(Moments(self.key)) if self.analyzers() else tf.zeros([4], tf.float64)
        raw = batch.tensor(self.key)
        settings = (self.feature.normalize, self.feature.missing, raw.dtype, type(raw), raw.shape.rank)
        if raw.dtype == tf.string:
            _ = self.numbers(batch)  # raises the error that says what to do
        return batch.function(("numeric", *settings), self._scale)(raw, moments)

    def numbers(self, batch: Batch) -> tf.Tensor:
        """float64 [batch], NaN where missing."""
        return batch.raw(self.key).numbers

    def _scale(self, raw: RawTensor, moments: tf.Tensor) -> tf.Tensor:
        """float32 [batch]. moments: mean, deviation, minimum and maximum, if the settings need them."""
        return scaled(RawColumn(self.key, raw).numbers, moments, self.feature.normalize, self.feature.missing)


def scaled(numbers: tf.Tensor, moments: tf.Tensor, normalize: str, missing: str | float) -> tf.Tensor:
    """Numbers with missing ones filled, scaled: float32 of their shape.

    Args:
        numbers: float64 [batch], or [batch, size]; NaN where missing.
        moments: float64 [4], or [size, 4]: mean, deviation, minimum and maximum, if the settings need them.
        normalize: the setting.
        missing: "mean", or the number that replaces a missing one.
    """
    mean, deviation, least, greatest = tf.unstack(moments, axis=-1)
    x = tf.where(tf.math.is_nan(numbers), mean if missing == "mean" else tf.cast(missing, tf.float64), numbers)
    if normalize == "z_score":
        # The deviation of equal values is a rounding error, so the range decides whether there is a scale.
        x = tf.where(greatest > least, tf.math.divide_no_nan(x - mean, deviation), tf.zeros_like(x))
    elif normalize == "min_max":
        x = tf.math.divide_no_nan(x - least, greatest - least)
    elif normalize == "log":
        x = tf.sign(x) * tf.math.log1p(tf.abs(x))
    return tf.cast(x, tf.float32)
