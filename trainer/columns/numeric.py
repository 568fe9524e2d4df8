"""`column: numeric`: a scaled number."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from headrace.configs.schema.features import NumericFeature
from headrace.trainer.columns.analyzers.numbers import Moments
from headrace.trainer.columns.base import Analyzer, Batch, NumberColumn
from headrace.trainer.columns.raw import rows_of
from headrace.trainer.columns.stacked import stacked_numbers

TOGETHER = 64
"""The most columns in one tensor. TFT's loader searches the graph for the columns that each feature depends on: 64
instead of all make that search linear in the columns, and the graph has hardly more operations."""


class NumericColumn(NumberColumn[NumericFeature]):
    """The number with missing values filled, scaled in float64 so that large integers keep their digits."""

    def analyzers(self) -> list[Analyzer]:
        """The moments, if the scaling or the substitute for missing values needs them."""
        needed = self.feature.missing == "mean" or self.feature.normalize in ("z_score", "min_max")
        return [Moments(self.key)] if needed else []

    def transform(self, batch: Batch) -> tf.Tensor:
        """(x - mean) / deviation, (x - min) / (max - min), sign(x) log(1 + |x|), or x.

        Columns with the same settings are computed as one tensor: a graph takes time per operation.
        """
        if batch.tensor(self.key).dtype == tf.string:
            _ = self.numbers(batch)  # raises the error that says what to do
        settings = (self.feature.normalize, self.feature.missing)
        return batch.together(("numeric", *settings), lambda: self._alike(batch))[self.name]

    def _alike(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Of each numeric column with the settings of this one, its feature: float32 [batch]."""
        settings = (self.feature.normalize, self.feature.missing)
        alike = [
            column
            for column in batch.columns.values()
            if isinstance(column, NumericColumn)
            and (column.feature.normalize, column.feature.missing) == settings
            and batch.has_numbers(column.key)
        ]
        features: dict[str, tf.Tensor] = {}
        for start in range(0, len(alike), TOGETHER):
            features.update(_scaled_alike(alike[start : start + TOGETHER], batch))
        return features

    def numbers(self, batch: Batch) -> tf.Tensor:
        """float64 [batch], NaN where missing."""
        return batch.raw(self.key).numbers


def _scaled_alike(alike: Sequence[NumericColumn], batch: Batch) -> dict[str, tf.Tensor]:
    """The features of columns with the same settings: float32 [batch] each."""
    zeros = tf.zeros([4], tf.float64)
    moments = [batch.result(Moments(column.key)) if column.analyzers() else zeros for column in alike]
    keys = [column.key for column in alike]
    numbers = stacked_numbers(batch.tensors, keys, rows_of(batch.tensors[keys[0]]))
    feature = alike[0].feature
    x = scaled(numbers, tf.stack(moments), feature.normalize, feature.missing)
    return dict(zip((column.name for column in alike), tf.unstack(x, len(alike), axis=1), strict=True))


def scaled(numbers: tf.Tensor, moments: tf.Tensor, normalize: str, missing: str | float) -> tf.Tensor:
    """Numbers with missing ones filled, scaled: float32 of their shape.

    Args:
        numbers: float64 [batch], or [batch, size]; NaN where missing.
        moments: float64 [4], or [size, 4]: mean, deviation, minimum and maximum, if the settings need them.
        normalize: the setting.
        missing: "mean", or the number that replaces a missing one.
    """
    mean, deviation, least, greatest = tf.unstack(moments, axis=-1)
    x = tf.where(tf.math.is_nan(numbers), mean if missing == "mean" else tf.constant(missing, tf.float64), numbers)
    if normalize == "z_score":
        # The deviation of equal values is a rounding error, so the range decides whether there is a scale.
        x = tf.where(greatest > least, tf.math.divide_no_nan(x - mean, deviation), tf.zeros_like(x))
    elif normalize == "min_max":
        x = tf.math.divide_no_nan(x - least, greatest - least)
    elif normalize == "log":
        x = tf.sign(x) * tf.math.log1p(tf.abs(x))
    return tf.cast(x, tf.float32)
