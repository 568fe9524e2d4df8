"""Signature `generate` of a next-word model: it continues a text.

generate    {"prompt": string [batch], "length": int32 [], "temperature": float32 [], "top_k": int32 [],
             "top_p": float32 [], "seed": int64 []}
            → {"text": string [batch], the prompt followed by `length` words; "words": string [batch, length]}

At a temperature of 0 each word is the most probable one; above, words are drawn with probabilities raised to the power
of 1 / temperature. `top_k` restricts the draw to so many of the most probable words, 0 to none of them; `top_p` to the
most probable of these that together reach that probability (Holtzman et al., "The curious case of neural text
degeneration", ICLR 2020), 1 to none. The same seed draws the same words, with any number of threads. The unknown word
is never chosen. All columns but the text's are missing. A `length` below 0 or above MAX_LENGTH is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_transform as tft

from headrace.trainer.columns import PADDING, Column, TextColumn

Tensors = dict[str, tf.Tensor]

GENERATE = "generate"
"""The name of the signature."""
INPUT = {
    "prompt": tf.TensorSpec([None], tf.string, name="prompt"),
    "length": tf.TensorSpec([], tf.int32, name="length"),
    "temperature": tf.TensorSpec([], tf.float32, name="temperature"),
    "top_k": tf.TensorSpec([], tf.int32, name="top_k"),
    "top_p": tf.TensorSpec([], tf.float32, name="top_p"),
    "seed": tf.TensorSpec([], tf.int64, name="seed"),
}


MAX_LENGTH = 10_000
"""The most words that a request may ask for: their memory is allocated before the first is chosen."""


def option_names(columns: Collection[str] = ()) -> dict[str, str]:
    """The input of the signature for each of INPUT. columns: inputs that are data columns, whose names are taken."""
    return {name: f"{name}_" if name in columns else name for name in INPUT}


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
        prompt, length, seed = inputs["prompt"], checked_length(inputs), inputs["seed"]
        features = self.transform(prompt)
        start = _ragged(features[self.column.name])
        known = tf.cast(start.row_lengths(), tf.int32)
        padding = tf.fill([tf.size(prompt), length], tf.constant(PADDING, tf.int64))
        ids = tf.concat([start, padding], axis=1).to_tensor(PADDING)
        rows = tf.range(tf.size(prompt))

        def add_word(step: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            text = tf.RaggedTensor.from_tensor(ids, tf.cast(known + step, tf.int64))
            probabilities = self.predict({**features, self.column.name: self._window(text)})
            word = choose(probabilities[:, :-1], inputs, tf.stack([seed, tf.cast(step, tf.int64)]))
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


def checked_length(inputs: Tensors) -> tf.Tensor:
    """int32 []: `length` of INPUT. The graph raises InvalidArgumentError if it is not 0 to MAX_LENGTH."""
    length = inputs["length"]
    fits = (length >= 0) & (length <= MAX_LENGTH)
    check = tf.debugging.Assert(fits, [f"length: it must be from 0 to {MAX_LENGTH:,}"])
    with tf.control_dependencies([check]):
        return tf.identity(length)


def choose(probabilities: tf.Tensor, inputs: Tensors, seed: tf.Tensor) -> tf.Tensor:
    """int64 [batch]: a word for each row.

    Args:
        probabilities: float32 [batch, words].
        inputs: `temperature`, `top_k` and `top_p` of INPUT.
        seed: int64 [2].
    """
    temperature = inputs["temperature"]
    greedy = temperature <= 0
    scores = tf.math.log(probabilities) / tf.where(greedy, 1.0, temperature)
    scores = tf.cond(
        (inputs["top_k"] > 0) | (inputs["top_p"] < 1),
        lambda: most_probable(scores, inputs["top_k"], inputs["top_p"]),
        lambda: scores,
    )
    return tf.cond(greedy, lambda: tf.argmax(probabilities, axis=1), lambda: _drawn(scores, seed))


def _drawn(scores: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """int64 [batch]: the first word up to which the probabilities of a row sum to more than a number of the seed.

    tf.random.stateless_categorical draws other words with another number of threads, and others again on a GPU.
    """
    reached = tf.cumsum(tf.cast(tf.nn.softmax(scores), tf.float64), axis=1)
    drawn = tf.random.stateless_uniform([tf.shape(scores)[0], 1], seed, dtype=tf.float64, alg="philox")
    return tf.reduce_sum(tf.cast(reached <= drawn * reached[:, -1:], tf.int64), axis=1)


def most_probable(scores: tf.Tensor, top_k: tf.Tensor, top_p: tf.Tensor) -> tf.Tensor:
    """The scores with -inf for words that are not to be drawn: float32 [batch, words].

    Args:
        scores: Logarithms of probabilities, up to a constant for each row.
        top_k: How many words are left; 0 or less: all.
        top_p: The least probability that the most probable of these have together; at least one is left.
    """
    order = tf.argsort(scores, direction="DESCENDING", stable=True)
    place = tf.argsort(order)
    ranked = tf.gather(scores, order, batch_dims=1)
    number = tf.range(tf.shape(scores)[1])
    minus_infinity = tf.constant(float("-inf"), scores.dtype)
    ranked = tf.where((number < top_k) | (top_k <= 0), ranked, minus_infinity)
    before = tf.cumsum(tf.nn.softmax(ranked), axis=1, exclusive=True)
    kept = (before < top_p) | (top_p >= 1) | (number == 0)
    return tf.gather(tf.where(kept, ranked, minus_infinity), place, batch_dims=1)
