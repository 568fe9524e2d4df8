"""How well the next word is told, as Keras metrics for each epoch; the Evaluator measures the same."""

from __future__ import annotations

from typing import Any

import keras


@keras.saving.register_keras_serializable("headrace")
class KnownWords(keras.metrics.Mean):
    """Share of the examples whose word is among the k most probable. A word outside the vocabulary, the last class, is
    never told.
    """

    def __init__(self, k: int, name: str = "known_words", **settings: Any) -> None:
        super().__init__(name=name, **settings)
        self.k = k

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """y_true: int64 [batch] class ids; y_pred: float32 [batch, classes]."""
        y_true = keras.ops.reshape(y_true, (-1,))
        told = keras.ops.in_top_k(y_true, y_pred, k=min(self.k, y_pred.shape[-1]))
        known = keras.ops.not_equal(y_true, y_pred.shape[-1] - 1)
        super().update_state(keras.ops.cast(keras.ops.logical_and(told, known), self.dtype), sample_weight)

    def get_config(self) -> dict[str, Any]:
        """What the metric is rebuilt from."""
        return {**super().get_config(), "k": self.k}


@keras.saving.register_keras_serializable("headrace")
class Perplexity(keras.metrics.Mean):
    """The exponential of the mean cross-entropy: among how many words, all as probable, one would choose as badly."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """y_true: int64 [batch] class ids; y_pred: float32 [batch, classes]."""
        entropy = keras.ops.sparse_categorical_crossentropy(keras.ops.reshape(y_true, (-1,)), y_pred)
        super().update_state(entropy, sample_weight)

    def result(self) -> Any:
        """Of all examples so far."""
        return keras.ops.exp(super().result())
