"""`column: text_embedding`: a text as the vector of a pretrained network."""

from __future__ import annotations

import keras
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import TextEmbeddingFeature
from headrace.trainer.columns.base import Batch, NumberColumn
from headrace.trainer.columns.raw import as_ragged
from headrace.trainer.pretrained import TextVectors


class TextEmbeddingColumn(NumberColumn[TextEmbeddingFeature]):
    """The text until the model reads it, then the network's vector of it."""

    dtype = "string"

    def transform(self, batch: Batch) -> tf.Tensor:
        """The text, string [batch]; "" where missing. Integers are in decimal."""
        raw = batch.raw(self.key)
        if not raw.is_text and not raw.is_integer:
            raise TrainingError(
                f"data column {self.key!r} holds fractional numbers, and a text has words. Make the feature `column:"
                " numeric` or `column: bucketized`, or correct the type of the data column"
            )
        if self.feature.multivalued and raw.is_text:
            return tf.strings.reduce_join(as_ragged(batch.tensor(self.key)), axis=-1, separator=" ")
        return raw.filled_text("")[0]

    def vectors(self, texts: keras.KerasTensor) -> keras.KerasTensor:
        """The model's input, string [batch], as float32 [batch, n]."""
        feature, name = self.feature, f"{self.input_name}_vectors"
        return TextVectors(feature.saved_model, feature.fine_tune, self.name, name=name)(texts)
