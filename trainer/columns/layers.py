"""Keras layers that take many features at once.

All features of the same width share one table, each at its own offset: tracing, compiling and exporting a model take
time per variable and per layer, and a table per feature makes four times as many of them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from headrace.trainer.columns.base import PADDING

Multivalued: TypeAlias = keras.KerasTensor
"""Any number of categories per example: int64, a tf.RaggedTensor [batch, values], or [batch, values] padded with
PADDING."""


class _Table(keras.layers.Layer):
    """Rows of weights for the categories of several features, concatenated into one table."""

    def __init__(self, sizes: tuple[int, ...], width: int, **settings: Any) -> None:
        """
        Args:
            sizes: Number of categories of each feature.
            width: Weights per category.
            settings: Arguments of `keras.layers.Layer`.
        """
        super().__init__(**settings)
        self.sizes = tuple(sizes)
        self.width = width
        self.offsets = np.cumsum((0, *self.sizes[:-1]))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "sizes": self.sizes, "width": self.width}

    def _make_table(self, initializer: str) -> None:
        # In half precision, Keras would convert the whole table at each step; `_look_up` converts only rows.
        self.table = self.add_weight((sum(self.sizes), self.width), initializer, name="table", autocast=False)

    def _look_up(self, ids: keras.KerasTensor) -> keras.KerasTensor:
        """The rows of any number of ids: [..., width]. Unlike `keras.ops.take`, it does not copy the table."""
        return keras.ops.cast(tf.gather(self.table.value, ids), self.compute_dtype)

    def _rows(self, ids: list[keras.KerasTensor]) -> keras.KerasTensor:
        """[batch, features, width]."""
        return self._look_up(keras.ops.stack(ids, axis=1) + self.offsets)

    def rows_of(self, feature: int) -> np.ndarray:
        """The weights of one feature, by its position among the layer's inputs: [categories, width]."""
        start = self.offsets[feature]
        return np.asarray(self.table)[start : start + self.sizes[feature]]


@keras.saving.register_keras_serializable("headrace")
class Embeddings(_Table):
    """A vector for the category of each feature, side by side: int64 [batch] each → float32 [batch, all widths]."""

    def build(self, input_shape: Any = None) -> None:
        """Initialize as keras.layers.Embedding does: uniform between -0.05 and 0.05."""
        self._make_table("uniform")

    def call(self, ids: list[keras.KerasTensor]) -> keras.KerasTensor:
        """ids: one [batch] tensor per feature."""
        return keras.ops.reshape(self._rows(ids), (-1, len(self.sizes) * self.width))


@keras.saving.register_keras_serializable("headrace")
class PooledEmbeddings(_Table):
    """The vectors of each feature's values pooled into one, side by side: `Multivalued` each → float32 [batch, widths].

    combiner: mean, sum, or sqrtn (the sum divided by the square root of their number). Zeros where there is no value.
    """

    def __init__(self, sizes: tuple[int, ...], width: int, combiner: str = "sum", **settings: Any) -> None:
        super().__init__(sizes, width, **settings)
        self.combiner = combiner

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "combiner": self.combiner}

    def build(self, input_shape: Any = None) -> None:
        """Initialize as keras.layers.Embedding does."""
        self._make_table("uniform")

    def call(self, ids: list[Multivalued]) -> keras.KerasTensor:
        """ids: one tensor per feature."""
        return keras.ops.concatenate(self._pooled(ids), axis=1)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, int]:
        """[batch, all widths]."""
        return input_shape[0][0], len(self.sizes) * self.width

    def _pooled(self, ids: list[Multivalued]) -> list[keras.KerasTensor]:
        return [self._pool(one, offset) for one, offset in zip(map(dense, ids), self.offsets, strict=True)]

    def _pool(self, ids: keras.KerasTensor, offset: int) -> keras.KerasTensor:
        """Pool in float32: a sum of many float16 or bfloat16 numbers loses precision."""
        present = keras.ops.not_equal(ids, PADDING)
        rows = self._look_up(keras.ops.where(present, ids, 0) + offset)
        weights = keras.ops.cast(present, "float32")
        sums = keras.ops.sum(keras.ops.cast(rows, "float32") * keras.ops.expand_dims(weights, axis=2), axis=1)
        return keras.ops.cast(sums * scale(weights, self.combiner), rows.dtype)


@keras.saving.register_keras_serializable("headrace")
class LinearSums(PooledEmbeddings):
    """The sum of one weight for each category of each feature: `Multivalued` each → float32 [batch, width]."""

    def build(self, input_shape: Any = None) -> None:
        """Initialize with zeros, as LinearTerms does."""
        self._make_table("zeros")

    def call(self, ids: list[Multivalued]) -> keras.KerasTensor:
        """ids: one tensor per feature."""
        return sum(self._pooled(ids))

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, int]:
        """[batch, width]."""
        return input_shape[0][0], self.width


@keras.saving.register_keras_serializable("headrace")
class MultiHots(keras.layers.Layer):
    """Counts of each category, side by side: `Multivalued` each → float32 [batch, sum of sizes].

    combiner: sum (the counts), mean (their shares), or sqrtn (divided by the square root of the number of values).
    """

    def __init__(self, sizes: tuple[int, ...], combiner: str, **settings: Any) -> None:
        """sizes: number of categories of each feature."""
        super().__init__(**settings)
        self.sizes, self.combiner = tuple(sizes), combiner

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "sizes": self.sizes, "combiner": self.combiner}

    def call(self, ids: list[Multivalued]) -> keras.KerasTensor:
        """ids: one tensor per feature."""
        parts = zip(map(dense, ids), self.sizes, strict=True)
        return keras.ops.concatenate([self._count(one, size) for one, size in parts], axis=1)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, int]:
        """[batch, sum of sizes]."""
        return input_shape[0][0], sum(self.sizes)

    def _count(self, ids: keras.KerasTensor, size: int) -> keras.KerasTensor:
        """Count with a segment sum, as the one-hot codes of all values at once might not fit in memory.

        In float32, because adding ones in bfloat16 stops at 256.
        """
        weights = keras.ops.cast(keras.ops.not_equal(ids, PADDING), "float32")
        batch = keras.ops.shape(ids)[0]
        # PADDING gets a segment of its own after the categories, which is cut off below.
        ids = keras.ops.where(keras.ops.equal(ids, PADDING), size, ids)
        segments = ids + keras.ops.cast(keras.ops.arange(batch) * (size + 1), ids.dtype)[:, None]
        counts = tf.math.unsorted_segment_sum(
            tf.reshape(weights, [-1]), tf.reshape(segments, [-1]), tf.cast(batch * (size + 1), ids.dtype)
        )
        scaled = keras.ops.reshape(counts, (-1, size + 1))[:, :size] * scale(weights, self.combiner)
        return keras.ops.cast(scaled, self.compute_dtype)


def dense(ids: Multivalued) -> keras.KerasTensor:
    """int64 [batch, values], padded with PADDING."""
    return ids.to_tensor(PADDING) if isinstance(ids, tf.RaggedTensor) else ids


def scale(weights: keras.KerasTensor, combiner: str) -> keras.KerasTensor:
    """The factor for a sum over values, [batch, 1]. weights [batch, values]: 1 for a value, 0 for padding."""
    number = keras.ops.maximum(keras.ops.sum(weights, axis=1, keepdims=True), 1)
    return {"sum": keras.ops.ones_like, "mean": keras.ops.reciprocal, "sqrtn": keras.ops.rsqrt}[combiner](number)


@keras.saving.register_keras_serializable("headrace")
class LinearTerms(_Table):
    """The sum of one weight for the category of each feature: int64 [batch] each → float32 [batch, width]."""

    def build(self, input_shape: Any = None) -> None:
        """Initialize with zeros: a category that never occurs contributes nothing."""
        self._make_table("zeros")

    def call(self, ids: list[keras.KerasTensor]) -> keras.KerasTensor:
        """ids: one [batch] tensor per feature."""
        return keras.ops.sum(self._rows(ids), axis=1)


@keras.saving.register_keras_serializable("headrace")
class OneHots(keras.layers.Layer):
    """One-hot codes of several features, side by side: int64 [batch] each → float32 [batch, sum of sizes]."""

    def __init__(self, sizes: tuple[int, ...], **settings: Any) -> None:
        """sizes: number of categories of each feature."""
        super().__init__(**settings)
        self.sizes = tuple(sizes)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "sizes": self.sizes}

    def call(self, ids: list[keras.KerasTensor]) -> keras.KerasTensor:
        """ids: one [batch] tensor per feature."""
        codes = [keras.ops.one_hot(one, size) for one, size in zip(ids, self.sizes, strict=True)]
        return keras.ops.concatenate(codes, axis=1)


@keras.saving.register_keras_serializable("headrace")
class Numbers(keras.layers.Layer):
    """Numbers side by side: float32 [batch], or [batch, size] for a vector → float32 [batch, all of them]."""

    def call(self, numbers: list[keras.KerasTensor]) -> keras.KerasTensor:
        """numbers: one tensor per feature."""
        if all(len(one.shape) == 1 for one in numbers):
            return keras.ops.stack(numbers, axis=1)
        return keras.ops.concatenate([one[:, None] if len(one.shape) == 1 else one for one in numbers], axis=1)
