"""`model.kind: text`: an encoder over the words of a text, the other features beside it, and dense layers.

Every encoder is causal: what stands at a word follows from it and the words before. So the last word's state is that of
the whole text, and a model of the next word learns at every word at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from headrace.configs.label import LabelConfig
from headrace.configs.models import TextModel
from headrace.trainer.columns import PADDING, ModelInputs, TextColumn
from headrace.trainer.columns.layers import Several, dense
from headrace.trainer.models.layers import head, logits, tower


def build(features: ModelInputs, label: LabelConfig, model: TextModel) -> keras.Model:
    """The model, not compiled."""
    text = read_text(features, label, model)
    words = Words(name="words")(features.inputs[text])
    vectors = keras.layers.Embedding(features.num_categories[text] + 1, model.word_embedding, name="word_embedding")
    states = encoded(vectors(words), model)
    if (others := features.deep(but={text})) is not None:
        states = Beside(name="joined")([states, others])
    state = keras.Input((states.shape[-1],), name="state")
    top = tower(state, model)
    scores = WordScores(vectors, label.num_classes)(top) if label.kind == "next_word" else logits(top, label)
    scorer = keras.Model(state, scores, name="scorer")
    predictions = head(scorer(LastState(name="last_state")([states, words])), label)
    if label.kind != "next_word":
        return keras.Model(features.inputs, predictions, name="text")
    built = NextWord(features.inputs, predictions, name="text")
    built.learns_from(keras.Model(features.inputs, [words, states]), scorer)
    return built


def read_text(features: ModelInputs, label: LabelConfig, model: TextModel) -> str:
    """The name of the text that the model reads."""
    texts = [name for name, column in features.columns.items() if isinstance(column, TextColumn)]
    return model.text or label.text or texts[0]


def encoded(vectors: keras.KerasTensor, model: TextModel) -> keras.KerasTensor:
    """The words' vectors to states, float32 [batch, words, width] both."""
    if model.dropout:
        vectors = keras.layers.Dropout(model.dropout, name="word_dropout")(vectors)
    if model.encoder == "pooling":
        return RunningMean(name="pooling")(vectors)
    states = keras.layers.GRU(model.units, return_sequences=True, name="recurrent")(vectors)
    if model.encoder == "recurrent":
        return states
    found = keras.layers.Attention(use_scale=True, name="attention")([states, states], use_causal_mask=True)
    return keras.layers.Concatenate(name="attended")([states, found])


class NextWord(keras.Model):
    """A model of the word after a text, which learns the words inside the text too, each from those before it.

    The loss of a training step is the mean over all words of all texts and the label; the metrics are of the label
    alone, as in evaluation.
    """

    def learns_from(self, encoder: keras.Model, scorer: keras.Model) -> None:
        """encoder: features → words and states; scorer: states [n, width] → scores [n, classes]. Both are parts of this
        model, and so they are kept where Keras does not take them for further ones.
        """
        self._parts: Callable[[], tuple[keras.Model, keras.Model]] = lambda: (encoder, scorer)

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step of the optimizer, as keras.Model.train_step makes it, but for the loss."""
        features, label, weight = keras.utils.unpack_x_y_sample_weight(data)
        batch = tf.shape(label)[0]
        with tf.GradientTape() as tape:
            loss, predictions = self.loss_and_predictions(features, label)
            replicas = tf.distribute.get_strategy().num_replicas_in_sync
            scaled = self.optimizer.scale_loss(loss / replicas)
        self._loss_tracker.update_state(loss, sample_weight=batch)
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(scaled, weights), weights, strict=True))
        return self.compute_metrics(features, label, predictions, sample_weight=weight)

    def loss_and_predictions(self, features: Any, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The mean cross-entropy over every word; and the probabilities [batch, classes] of the label."""
        encoder, scorer = self._parts()
        words, states = encoder(features, training=True)
        scores = scorer(tf.reshape(states, [-1, states.shape[-1]]), training=True)
        scores = tf.reshape(tf.cast(scores, tf.float32), [tf.shape(words)[0], -1, scores.shape[-1]])
        targets = following(words, label, scores.shape[-1] - 1)
        counted = tf.cast(targets >= 0, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), scores)
        loss = tf.math.divide_no_nan(tf.reduce_sum(losses * counted), tf.reduce_sum(counted))
        last = tf.gather(scores, tf.maximum(lengths(words) - 1, 0), batch_dims=1)
        return loss, tf.nn.softmax(last)


def following(words: tf.Tensor, label: tf.Tensor, unknown: int) -> tf.Tensor:
    """The class of what follows each word, int64 [batch, words]; below 0 where nothing is known to.

    words: as Words gives them; label: class ids [batch]; unknown: the class of all words outside the vocabulary.
    """
    after = tf.pad(words[:, 1:], [[0, 0], [0, 1]])
    inside = tf.where(after > 0, tf.minimum(after - 1, unknown), -1)
    at_end = tf.equal(tf.range(tf.shape(words)[1]), lengths(words)[:, tf.newaxis] - 1)
    return tf.where(at_end, tf.cast(tf.reshape(label, [-1, 1]), inside.dtype), inside)


def lengths(words: tf.Tensor) -> tf.Tensor:
    """Number of words of each text, int32 [batch]."""
    return tf.reduce_sum(tf.cast(words > 0, tf.int32), axis=1)


@keras.saving.register_keras_serializable("headrace")
class WordScores(keras.layers.Layer):
    """A score for each word: how well a linear function of the state fits the word's own vector (as in Press and Wolf
    2017, arXiv:1608.05859). [batch, width] → [batch, classes].
    """

    def __init__(self, vectors: keras.layers.Embedding, classes: int, name: str = "logits") -> None:
        super().__init__(name=name)
        self.vectors, self.classes = vectors, classes
        self.guess = keras.layers.Dense(vectors.output_dim, name="guess")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """One more weight for each word."""
        self.guess.build(input_shape)
        self.bias = self.add_weight(shape=(self.classes,), initializer="zeros", name="bias")

    def call(self, state: keras.KerasTensor) -> keras.KerasTensor:
        """state: behind the dense layers."""
        vectors = self.vectors.embeddings[1 : self.classes + 1]  # of the words, then of the first unknown one
        return keras.ops.matmul(self.guess(state), keras.ops.transpose(vectors)) + self.bias


@keras.saving.register_keras_serializable("headrace")
class Words(keras.layers.Layer):
    """The places of words, `Several` → int64 [batch, words], from 1; 0 is what shorter texts are filled up with. There
    is one place at least.
    """

    def call(self, places: Several) -> keras.KerasTensor:
        """places: from 0."""
        padded = dense(places)
        if not padded.shape[1]:  # none, or not known yet
            padded = tf.pad(padded, [[0, 0], [0, tf.cast(tf.shape(padded)[1] == 0, tf.int32)]], constant_values=PADDING)
        return padded + 1

    def compute_output_spec(self, places: Several) -> keras.KerasTensor:
        """Dense."""
        return keras.KerasTensor(places.shape, places.dtype)


@keras.saving.register_keras_serializable("headrace")
class RunningMean(keras.layers.Layer):
    """At each word the mean of its vector and of those before it: float32 [batch, words, width] → the same."""

    def call(self, vectors: keras.KerasTensor) -> keras.KerasTensor:
        """vectors: of the words. Added up in float32: in half precision a long sum loses what each word adds."""
        number = keras.ops.arange(1, keras.ops.shape(vectors)[1] + 1)
        sums = keras.ops.cumsum(keras.ops.cast(vectors, "float32"), axis=1)
        return keras.ops.cast(sums / keras.ops.cast(number, "float32")[:, None], vectors.dtype)


@keras.saving.register_keras_serializable("headrace")
class LastState(keras.layers.Layer):
    """The state at the last word: states [batch, words, width] and words [batch, words] → [batch, width]; zeros where
    there is no word.
    """

    def call(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """inputs: states, and words as Words gives them."""
        states, words = inputs
        number = lengths(words)
        last = tf.gather(states, tf.maximum(number - 1, 0), batch_dims=1)
        return last * tf.cast(number > 0, last.dtype)[:, tf.newaxis]

    def compute_output_spec(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """[batch, width]."""
        return keras.KerasTensor((inputs[0].shape[0], inputs[0].shape[-1]), self.compute_dtype)


@keras.saving.register_keras_serializable("headrace")
class Beside(keras.layers.Layer):
    """States [batch, words, width] and one vector for each text [batch, more] → [batch, words, width + more]."""

    def call(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """inputs: states and vectors."""
        states, vectors = inputs
        shape = tf.concat([tf.shape(states)[:2], tf.shape(vectors)[1:]], axis=0)
        return tf.concat([states, tf.broadcast_to(vectors[:, tf.newaxis], shape)], axis=-1)

    def compute_output_spec(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """[batch, words, width + more]."""
        states, vectors = inputs
        return keras.KerasTensor((*states.shape[:2], states.shape[-1] + vectors.shape[-1]), self.compute_dtype)
