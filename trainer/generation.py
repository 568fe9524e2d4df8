"""Signature `generate` of a next-word model: it continues a text.

generate    {"prompt": string [batch], "length": int32 [], "temperature": float32 [], "seed": int64 []}
            → {"text": string [batch], the prompt followed by `length` words; "words": string [batch, length]}

At a temperature of 0 each word is the most probable one; above, words are drawn with probabilities raised to the power
of 1 / temperature. The same seed draws the same words. The unknown word is never chosen. All columns but the text's are
missing.
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
    """The parts of a model that continue a text."""

    column: TextColumn
    """The text."""
    words: list[str]
    """Its vocabulary."""
    transform: Callable[[tf.Tensor], dict[str, tf.Tensor | tf.RaggedTensor]]
    """Prompts, string [batch] → features of the model."""
    predict: Callable[[Mapping[str, tf.Tensor | tf.RaggedTensor]], tf.Tensor]
    """Features → probabilities, float32 [batch, words + 1]."""

    def generate(self, inputs: Tensors) -> Tensors:
        """Signature `generate`."""
        prompt, length, seed = inputs["prompt"], inputs["length"], inputs["seed"]
        features = self.transform(prompt)
        start = _ragged(features[self.column.name])
        known = tf.cast(start.row_lengths(), tf.int32)
        padding = tf.fill([tf.size(prompt), length], tf.constant(PADDING, tf.int64))
        ids = tf.concat([start, padding], axis=1).to_tensor(PADDING)
        rows = tf.range(tf.size(prompt))

        def add_word(step: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            text = tf.RaggedTensor.from_tensor(ids, tf.cast(known + step, tf.int64))
            probabilities = self.predict({**features, self.column.name: self._window(text)})
            word = _choose(probabilities[:, :-1], inputs["temperature"], tf.stack([seed, tf.cast(step, tf.int64)]))
            return step + 1, tf.tensor_scatter_nd_update(ids, tf.stack([rows, known + step], axis=1), word)

        shapes = (tf.TensorShape([]), tf.TensorShape([None, None]))
        _, ids = tf.while_loop(lambda step, _: step < length, add_word, (0, ids), shapes)
        new = tf.gather(ids, known[:, tf.newaxis] + tf.range(length), batch_dims=1)
        words = tf.gather(tf.constant(self.words), new)
        added = tf.strings.reduce_join(words, axis=1, separator=" ")
        text = tf.strings.strip(tf.strings.join([prompt, added], " "))
        return {"text": text, "words": words}

    def _window(self, ids: tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
        """The last words, as many as the model takes, in the form that it takes."""
        if self.column.feature.max_tokens is not None:
            ids = ids[:, -self.column.feature.max_tokens :]
        if self.column.width is None:
            return ids
        return ids.to_tensor(PADDING, shape=[None, self.column.width])


def vocabulary(column: TextColumn, transform_output: tft.TFTransformOutput) -> list[str]:
    """Return the words of a text's vocabulary, in order."""
    given = column.vocabulary.given()
    if given is not None:
        return list(given)
    return [word.decode() for word in transform_output.vocabulary_by_name(column.name)]


def words(columns: Mapping[str, Column], text: str, output: tft.TFTransformOutput) -> list[str]:
    """Return the words that a next-word model predicts, in the order of its predictions."""
    return vocabulary(_text_column(columns, text), output)


def _text_column(columns: Mapping[str, Column], text: str) -> TextColumn:
    column = columns[text]
    assert isinstance(column, TextColumn)  # noqa: S101 - a rule of the config
    return column


def signature(columns: Mapping[str, Column], text: str, signatures: Any, output: tft.TFTransformOutput) -> Any:
    """Return the function of the signature and the specification of its argument.

    Args:
        columns: The features by name.
        text: The name of the text.
        signatures: The `Signatures` of the model.
        output: The transform graph.
    """
    column = _text_column(columns, text)

    def transform(prompt: tf.Tensor) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        features = signatures.transform_text(column.key, prompt)
        return {name: features[name] for name in signatures.model_inputs}

    return Generator(column, vocabulary(column, output), transform, signatures.predict).generate, INPUT


def _ragged(ids: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
    return ids if isinstance(ids, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(ids, padding=PADDING)


def _choose(probabilities: tf.Tensor, temperature: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """int64 [batch]: a word for each row."""
    greedy = temperature <= 0
    scores = tf.math.log(probabilities) / tf.where(greedy, 1.0, temperature)
    drawn = tf.random.stateless_categorical(scores, 1, seed, tf.int64)[:, 0]
    return tf.where(greedy, tf.argmax(probabilities, axis=1), drawn)
