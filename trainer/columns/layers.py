"""The Keras layers that take many features at once.

One table for all features of the same width, each feature at an offset of its own: tracing, compiling and exporting a
model take time per variable and per layer, and a table per feature makes four times as many of them.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np


class _Table(keras.layers.Layer):
    """Rows of weights for the categories of several features, laid one after another in one table."""

    def __init__(self, sizes: tuple[int, ...], width: int, **settings: Any) -> None:
        """sizes: number of categories of each feature; width: weights per category."""
        super().__init__(**settings)
        self.sizes = tuple(sizes)
        self.width = width
        self.offsets = np.cumsum((0, *self.sizes[:-1]))

    def get_config(self) -> dict[str, Any]:
        """What the layer is rebuilt from."""
        return {**super().get_config(), "sizes": self.sizes, "width": self.width}

    def _make_table(self, initializer: str) -> None:
        self.table = self.add_weight(shape=(sum(self.sizes), self.width), initializer=initializer, name="table")

    def _rows(self, ids: list[keras.KerasTensor]) -> keras.KerasTensor:
        """float32 [batch, features, width]."""
        return keras.ops.take(self.table, keras.ops.stack(ids, axis=1) + self.offsets, axis=0)

    def rows_of(self, feature: int) -> np.ndarray:
        """The weights of one feature, by its place among the layer's inputs: [categories, width]."""
        start = self.offsets[feature]
        return np.asarray(self.table)[start : start + self.sizes[feature]]


@keras.saving.register_keras_serializable("headrace")
class Embeddings(_Table):
    """A vector for the category of each feature, side by side: int64 [batch] each → float32 [batch, all widths]."""

    def build(self, input_shape: Any = None) -> None:  # noqa: ARG002
        """Vectors start as keras.layers.Embedding's do: uniform between -0.05 and 0.05."""
        self._make_table("uniform")

    def call(self, ids: list[keras.KerasTensor]) -> keras.KerasTensor:
        """ids: one [batch] tensor for each feature."""
        return keras.ops.reshape(self._rows(ids), (-1, len(self.sizes) * self.width))


@keras.saving.register_keras_serializable("headrace")
class LinearTerms(_Table):
    """The sum of a weight for the category of each feature: int64 [batch] each → float32 [batch, width]."""

    def build(self, input_shape: Any = None) -> None:  # noqa: ARG002
        """Weights start at zero: a category that is never seen has no say."""
        self._make_table("zeros")

    def call(self, ids: list[keras.KerasTensor]) -> keras.KerasTensor:
        """ids: one [batch] tensor for each feature."""
        return keras.ops.sum(self._rows(ids), axis=1)


@keras.saving.register_keras_serializable("headrace")
class OneHots(keras.layers.Layer):
    """The one-hot codes of several features, side by side: int64 [batch] each → float32 [batch, sum of sizes]."""

    def __init__(self, sizes: tuple[int, ...], **settings: Any) -> None:
        """sizes: number of categories of each feature."""
        super().__init__(**settings)
        self.sizes = tuple(sizes)

    def get_config(self) -> dict[str, Any]:
        """What the layer is rebuilt from."""
        return {**super().get_config(), "sizes": self.sizes}

    def call(self, ids: list[keras.KerasTensor]) -> keras.KerasTensor:
        """ids: one [batch] tensor for each feature."""
        codes = [keras.ops.one_hot(one, size) for one, size in zip(ids, self.sizes, strict=True)]
        return keras.ops.concatenate(codes, axis=1)


@keras.saving.register_keras_serializable("headrace")
class Numbers(keras.layers.Layer):
    """Numbers side by side: float32 [batch] each → float32 [batch, features]."""

    def call(self, numbers: list[keras.KerasTensor]) -> keras.KerasTensor:
        """numbers: one [batch] tensor for each feature."""
        return keras.ops.stack(numbers, axis=1)
