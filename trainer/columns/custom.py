"""`column: custom`: a feature computed by the user's own function."""

from __future__ import annotations

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import CustomFeature
from headrace.trainer.columns.base import Batch, Categories, CategoryColumn, NumberColumn, VocabularySize
from headrace.trainer.hooks import resolve


class CustomNumber(NumberColumn[CustomFeature]):
    """A function's floating-point result."""

    def transform(self, batch: Batch) -> tf.Tensor:
        """The result as float32 [batch]."""
        result = _call(self.name, self.feature, batch)
        if not result.dtype.is_floating:
            raise TrainingError(
                f"features.{self.name}: {self.feature.function} gives {result.dtype.name}, and without `num_categories`"
                " the result must be floating point. Set `num_categories`, or cast the result to tf.float32"
            )
        return tf.cast(result, tf.float32)


class CustomCategory(CategoryColumn[CustomFeature]):
    """A function's integer result. The function itself decides on the category of a missing value."""

    def num_categories(self, vocabulary_size: VocabularySize | None = None) -> int:
        """Taken from the config."""
        return self.feature.num_categories or 0

    def categories(self, batch: Batch) -> Categories:
        """The result as int64. A category out of range fails Transform, or the request."""
        result = _call(self.name, self.feature, batch)
        if not result.dtype.is_integer:
            raise TrainingError(
                f"features.{self.name}: {self.feature.function} gives {result.dtype.name}, and `num_categories` is for"
                " an integer result. Remove `num_categories`, or cast the result to tf.int64"
            )
        ids, count = tf.cast(result, tf.int64), self.num_categories()
        message = f"features.{self.name}: {self.feature.function} gave a category outside of 0 to {count - 1}"
        with tf.control_dependencies(
            [
                tf.debugging.assert_non_negative(ids, message),
                tf.debugging.assert_less(ids, tf.constant(count, tf.int64), message),
            ]
        ):
            ids = tf.identity(ids)
        return Categories(ids, tf.ones_like(ids, tf.bool), count)


def custom_column(name: str, feature: CustomFeature) -> CustomNumber | CustomCategory:
    """Return a number column, or a category column if `num_categories` is set."""
    return CustomNumber(name, feature) if feature.num_categories is None else CustomCategory(name, feature)


def _call(name: str, feature: CustomFeature, batch: Batch) -> tf.Tensor:
    function = resolve(feature.function, f"features.{name}.function")
    result = function({key: batch.tensor(key) for key in feature.keys})
    if not isinstance(result, tf.Tensor) or result.shape.rank != 1:
        raise TrainingError(f"features.{name}: {feature.function} must give a tensor of shape [batch]; got {result}")
    return result
