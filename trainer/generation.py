"""Signature `generate` of a model of the next word: it continues a text.

generate    {"prompt": string [batch], "length": int32 [], "temperature": float32 [], "seed": int64 []}
            → {"text": string [batch], the prompt with so many words behind it; "words": string [batch, length]}

At a temperature of 0 each word is the most probable one; above, it is drawn by the probabilities to the power of one
over the temperature. The same seed draws the same words. The unknown word is never chosen. Columns other than the
text's are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_transform as tft

from headrace.trainer.columns import PADDING, Column, TextColumn

Tensors = dict[str, tf.Tensor]

INPUT = {
    "prompt": tf.TensorSpec([None], tf.string, name="prompt"),
    "length": tf.TensorSpec([], tf.int32, name="length"),
    "temperature": tf.TensorSpec([], tf.float32, name="temperature"),
    "seed": tf.TensorSpec([], tf.int64, name="seed"),
}


class Generator(NamedTuple):
    """What continues a text."""

    column: TextColumn
    """Of the text."""
    words: list[str]
    """Its vocabulary."""
    transform: Callable[[tf.Tensor], dict[str, tf.Tensor | tf.RaggedTensor]]
    """Prompts, string [batch], to the features of the model."""
    predict: Callable[[Mapping[str, tf.Tensor | tf.RaggedTensor]], tf.Tensor]
    """Features to probabilities, float32 [batch, words + 1]."""

    def generate(self, inputs: Tensors) -> Tensors:
        """The signature."""
        prompt, length, seed = inputs["prompt"], inputs["length"], inputs["seed"]
        features = self.transform(prompt)
        start = _ragged(features[self.column.name])
        known = tf.cast(start.row_lengths(), tf.int32)
        room = tf.fill([tf.size(prompt), length], tf.constant(PADDING, tf.int64))
        places = tf.concat([start, room], axis=1).to_tensor(PADDING)
        rows = tf.range(tf.size(prompt))

        def add(step: tf.Tensor, places: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            seen = tf.RaggedTensor.from_tensor(places, tf.cast(known + step, tf.int64))
            probabilities = self.predict({**features, self.column.name: self._window(seen)})
            word = _chosen(probabilities[:, :-1], inputs["temperature"], tf.stack([seed, tf.cast(step, tf.int64)]))
            return step + 1, tf.tensor_scatter_nd_update(places, tf.stack([rows, known + step], axis=1), word)

        shapes = (tf.TensorShape([]), tf.TensorShape([None, None]))
        _, places = tf.while_loop(lambda step, _: step < length, add, (0, places), shapes)
        new = tf.gather(places, known[:, tf.newaxis] + tf.range(length), batch_dims=1)
        words = tf.gather(tf.constant(self.words), new)
        added = tf.strings.reduce_join(words, axis=1, separator=" ")
        text = tf.strings.strip(tf.strings.join([prompt, added], " "))
        return {"text": text, "words": words}

    def _window(self, places: tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
        """The last words, as many as the model is given, in the form in which it is."""
        if self.column.feature.max_tokens is not None:
            places = places[:, -self.column.feature.max_tokens :]
        if self.column.width is None:
            return places
        return places.to_tensor(PADDING, shape=[None, self.column.width])


def vocabulary(column: TextColumn, transform_output: tft.TFTransformOutput) -> list[str]:
    """The words of a text's vocabulary, in order."""
    given = column.vocabulary.given()
    if given is not None:
        return list(given)
    return [word.decode() for word in transform_output.vocabulary_by_name(column.name)]


def signature(columns: Mapping[str, Column], text: str, signatures: Any, output: tft.TFTransformOutput) -> Any:
    """The function of the signature, and the specification of its argument. signatures: of the model."""
    column = columns[text]
    assert isinstance(column, TextColumn)  # noqa: S101 - a rule of the config

    def transform(prompt: tf.Tensor) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        features = signatures.transform_text(column.key, prompt)
        return {name: features[name] for name in signatures.model_inputs}

    return Generator(column, vocabulary(column, output), transform, signatures.predict).generate, INPUT


def _ragged(places: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
    return places if isinstance(places, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(places, padding=PADDING)


def _chosen(probabilities: tf.Tensor, temperature: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """int64 [batch]: a word for each row."""
    greedy = temperature <= 0
    scores = tf.math.log(probabilities) / tf.where(greedy, 1.0, temperature)
    drawn = tf.random.stateless_categorical(scores, 1, seed, tf.int64)[:, 0]
    return tf.where(greedy, tf.argmax(probabilities, axis=1), drawn)
