"""`model.kind: text`: an encoder over the words of a text, joined by the other features, and dense layers.

Every encoder is causal: the state at a word depends on it and the words before. So the state at the last word
represents the whole text, and a model of the next word learns at every word at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import TextModel
from headrace.trainer.columns import PADDING, ModelInputs, TextColumn
from headrace.trainer.columns.layers import Multivalued, dense
from headrace.trainer.models.layers import head, logits, tower


def build(features: ModelInputs, label: LabelConfig, model: TextModel) -> keras.Model:
    """Build the model, not compiled."""
    text = text_name(features, label, model)
    words = Words(name="words")(features.inputs[text])
    vectors = keras.layers.Embedding(features.num_categories[text] + 1, model.word_embedding, name="word_embedding")
    states = encode(vectors(words), model)
    if (others := features.deep(exclude={text})) is not None:
        states = JoinContext(name="joined")([states, others])
    state = keras.Input((states.shape[-1],), name="state")
    top = tower(state, model)
    scores = WordScores(vectors, label.num_classes)(top) if label.kind == "next_word" else logits(top, label)
    scorer = keras.Model(state, scores, name="scorer")
    predictions = head(scorer(LastState(name="last_state")([states, words])), label)
    if label.kind != "next_word":
        return keras.Model(features.inputs, predictions, name="text")
    built = NextWord(features.inputs, predictions, name="text")
    built.train_with(keras.Model(features.inputs, [words, states]), scorer)
    return built


def text_name(features: ModelInputs, label: LabelConfig, model: TextModel) -> str:
    """The name of the text that the model reads."""
    texts = [name for name, column in features.columns.items() if isinstance(column, TextColumn)]
    return model.text or label.text or texts[0]


def encode(vectors: keras.KerasTensor, model: TextModel) -> keras.KerasTensor:
    """The words' vectors to states, both float32 [batch, words, width]."""
    if model.dropout:
        vectors = keras.layers.Dropout(model.dropout, name="word_dropout")(vectors)
    if model.encoder == "pooling":
        return RunningMean(name="pooling")(vectors)
    states = keras.layers.GRU(model.units, return_sequences=True, name="recurrent")(vectors)
    if model.encoder == "recurrent":
        return states
    attended = keras.layers.Attention(use_scale=True, name="attention")([states, states], use_causal_mask=True)
    return keras.layers.Concatenate(name="attended")([states, attended])


class NextWord(keras.Model):
    """A model of the word after a text, which also learns each word inside the text from those before it.

    The loss of a training step is the mean over all words of all texts and the label; the metrics are computed for the
    label alone, as in evaluation.
    """

    def train_with(self, encoder: keras.Model, scorer: keras.Model) -> None:
        """Set the parts of this model that training calls separately.

        Args:
            encoder: Features → words and states.
            scorer: States [n, width] → scores [n, classes].
        """
        # Inside a function, where Keras does not track them as additional layers.
        self._parts: Callable[[], tuple[keras.Model, keras.Model]] = lambda: (encoder, scorer)

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step of the optimizer, as in keras.Model.train_step but with the loss over all words."""
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
        """Return the mean cross-entropy over all words, and the probabilities of the label [batch, classes]."""
        encoder, scorer = self._parts()
        words, states = encoder(features, training=True)
        scores = scorer(tf.reshape(states, [-1, states.shape[-1]]), training=True)
        scores = tf.reshape(tf.cast(scores, tf.float32), [tf.shape(words)[0], -1, scores.shape[-1]])
        targets = next_classes(words, label, scores.shape[-1] - 1)
        known = tf.cast(targets >= 0, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(targets, 0), scores)
        loss = tf.math.divide_no_nan(tf.reduce_sum(losses * known), tf.reduce_sum(known))
        last = tf.gather(scores, tf.maximum(lengths(words) - 1, 0), batch_dims=1)
        return loss, tf.nn.softmax(last)


def next_classes(words: tf.Tensor, label: tf.Tensor, unknown: int) -> tf.Tensor:
    """The class of the word after each word, int64 [batch, words]; negative where it is not known.

    Args:
        words: Output of Words.
        label: Class ids [batch].
        unknown: The class of all words outside the vocabulary.
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
    """A score for each word: how well a linear function of the state matches the word's own vector.

    [batch, width] → [batch, classes]. The output shares its weights with the embedding, as in Press and Wolf 2017,
    arXiv:1608.05859.
    """

    def __init__(self, vectors: keras.layers.Embedding, classes: int, name: str = "logits") -> None:
        super().__init__(name=name)
        self.vectors, self.classes = vectors, classes
        self.guess = keras.layers.Dense(vectors.output_dim, name="guess")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create one bias per class."""
        self.guess.build(input_shape)
        self.bias = self.add_weight(shape=(self.classes,), initializer="zeros", name="bias")

    def call(self, state: keras.KerasTensor) -> keras.KerasTensor:
        """state: output of the dense layers."""
        vectors = self.vectors.embeddings[1 : self.classes + 1]  # row 0 is padding; the last class is the unknown word
        return keras.ops.matmul(self.guess(state), keras.ops.transpose(vectors)) + self.bias


@keras.saving.register_keras_serializable("headrace")
class Words(keras.layers.Layer):
    """Word ids, `Multivalued` → int64 [batch, words], counted from 1; 0 is padding. There is at least one position."""

    def call(self, ids: Multivalued) -> keras.KerasTensor:
        """ids: counted from 0."""
        padded = dense(ids)
        if not padded.shape[1]:  # no position, or a number that is not known yet
            padded = tf.pad(padded, [[0, 0], [0, tf.cast(tf.shape(padded)[1] == 0, tf.int32)]], constant_values=PADDING)
        return padded + 1

    def compute_output_spec(self, ids: Multivalued) -> keras.KerasTensor:
        return keras.KerasTensor(ids.shape, ids.dtype)


@keras.saving.register_keras_serializable("headrace")
class RunningMean(keras.layers.Layer):
    """The mean of each word's vector and those before it: float32 [batch, words, width] → the same."""

    def call(self, vectors: keras.KerasTensor) -> keras.KerasTensor:
        """Sum in float32: in half precision a long sum loses what each word adds."""
        number = keras.ops.arange(1, keras.ops.shape(vectors)[1] + 1)
        sums = keras.ops.cumsum(keras.ops.cast(vectors, "float32"), axis=1)
        return keras.ops.cast(sums / keras.ops.cast(number, "float32")[:, None], vectors.dtype)


@keras.saving.register_keras_serializable("headrace")
class LastState(keras.layers.Layer):
    """The state at the last word: states [batch, words, width] and words [batch, words] → [batch, width].

    Zeros for a text without words.
    """

    def call(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """inputs: states, and the output of Words."""
        states, words = inputs
        number = lengths(words)
        last = tf.gather(states, tf.maximum(number - 1, 0), batch_dims=1)
        return last * tf.cast(number > 0, last.dtype)[:, tf.newaxis]

    def compute_output_spec(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """[batch, width]."""
        return keras.KerasTensor((inputs[0].shape[0], inputs[0].shape[-1]), self.compute_dtype)


@keras.saving.register_keras_serializable("headrace")
class JoinContext(keras.layers.Layer):
    """Append one vector per text to the state at each word.

    States [batch, words, width] and vectors [batch, more] → [batch, words, width + more].
    """

    def call(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """inputs: states and vectors."""
        states, vectors = inputs
        shape = tf.concat([tf.shape(states)[:2], tf.shape(vectors)[1:]], axis=0)
        return tf.concat([states, tf.broadcast_to(vectors[:, tf.newaxis], shape)], axis=-1)

    def compute_output_spec(self, inputs: list[keras.KerasTensor]) -> keras.KerasTensor:
        """[batch, words, width + more]."""
        states, vectors = inputs
        return keras.KerasTensor((*states.shape[:2], states.shape[-1] + vectors.shape[-1]), self.compute_dtype)
