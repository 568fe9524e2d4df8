"""`model.kind: encoder_decoder`: a text that is written word by word from another text.

The encoder is a bidirectional GRU over the source. The decoder is a GRU over the words written so far; at each word it
attends to all states of the encoder, and scores the next word (Luong et al. 2015, arXiv:1508.04025). In training it
gets the right words before each word, however the model would have begun (teacher forcing). The model itself, features
→ float32 [batch, classes], predicts the first word; `EncoderDecoder` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from headrace.configs.schema.encoder_decoder_model import EncoderDecoderModel
from headrace.configs.schema.label import LabelConfig
from headrace.trainer.columns import ModelInputs, TextColumn
from headrace.trainer.models.layers import head
from headrace.trainer.models.text import Words, WordScores
from headrace.trainer.target import START, cut


def build(features: ModelInputs, label: LabelConfig, model: EncoderDecoderModel) -> keras.Model:
    """Build the model, not compiled."""
    texts = [name for name, column in features.columns.items() if isinstance(column, TextColumn)]
    text = model.text or texts[0]
    words = Words(name="words")(features.inputs[text])
    read = encode(words, features, text, model)
    decoder = build_decoder(label, model)
    start = Start(name="start")(words)
    scores, _ = decoder([start, *read])
    predictions = head(scores[:, 0], label)
    built = EncoderDecoder(features.inputs, predictions, name="encoder_decoder")
    built.train_with(keras.Model(features.inputs, list(read)), decoder)
    return built


class Read(NamedTuple):
    """What the encoder knows of the sources."""

    state: Any
    """With which the decoder starts, float32 [batch, units]."""
    memory: Any
    """To which it attends, float32 [batch, source words, units]."""
    present: Any
    """Bool [batch, source words]: False for padding."""


def encode(words: keras.KerasTensor, features: ModelInputs, text: str, model: EncoderDecoderModel) -> Read:
    """words: output of Words for the source `text`."""
    present = Present(name="present")(words)
    vectors = keras.layers.Embedding(features.num_categories[text] + 1, model.word_embedding, name="word_embedding")
    embedded = vectors(words)
    if model.dropout:
        embedded = keras.layers.Dropout(model.dropout, name="word_dropout")(embedded)
    gru = keras.layers.GRU(model.units, return_sequences=True, return_state=True, name="gru")
    states, *last = keras.layers.Bidirectional(gru, name="encoder")(embedded, mask=present)
    others = features.deep(exclude={text})
    known = keras.layers.Concatenate(name="known")([*last, *([] if others is None else [others])])
    state = keras.layers.Dense(model.units, activation="tanh", name="initial_state")(known)
    return Read(state, Memory(model.units, name="memory")(states), present)


def build_decoder(label: LabelConfig, model: EncoderDecoderModel) -> keras.Model:
    """[previous, *Read] → scores of the next words and the state after them.

    previous: the class before each word, or START, int64 [batch, words]; scores: float32 [batch, words, classes]; the
    state: float32 [batch, units].
    """
    previous = keras.Input((None,), dtype="int64", name="previous")
    state = keras.Input((model.units,), name="state")
    memory = keras.Input((None, model.units), name="read")
    present = keras.Input((None,), dtype="bool", name="present")
    vectors = keras.layers.Embedding(label.num_classes + 1, model.word_embedding, name="target_embedding")
    embedded = vectors(previous - START)
    if model.dropout:
        embedded = keras.layers.Dropout(model.dropout, name="target_dropout")(embedded)
    gru = keras.layers.GRU(model.units, return_sequences=True, return_state=True, name="decoder_gru")
    states, after = gru(embedded, initial_state=state)
    if model.attention == "dot":
        attention: keras.layers.Layer = keras.layers.Attention(use_scale=True, name="attention")
    else:
        attention = keras.layers.AdditiveAttention(name="attention")
    found = attention([states, memory], mask=[None, present])
    both = keras.layers.Concatenate(name="state_and_found")([states, found])
    attended = keras.layers.Dense(model.units, activation="tanh", use_bias=False, name="attended")(both)
    scores = WordScores(vectors, label.num_classes)(attended)
    return keras.Model([previous, state, memory, present], [scores, after], name="decoder")


class EncoderDecoder(keras.Model):
    """Features → the probabilities of the first word, trained on all words of the labels.

    The loss is the mean over all words of a batch. The metrics are over all words as well, each predicted after the
    right words before it, as in evaluation.
    """

    def train_with(self, encoder: keras.Model, decoder: keras.Model) -> None:
        """Set the parts of this model that are called separately. encoder: features → Read."""
        # Inside a function, where Keras does not track them as additional layers.
        self._parts: Callable[[], tuple[keras.Model, keras.Model]] = lambda: (encoder, decoder)

    def read(self, features: Any, *, training: bool = False) -> Read:
        """Encode the sources."""
        return Read(*self._parts()[0](features, training=training))

    def step(self, previous: tf.Tensor, read: Read, *, training: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores of the words after `previous`, and the state after them: see `build_decoder`."""
        scores, state = self._parts()[1]([previous, *read], training=training)
        return scores, state

    def forced(self, features: Any, label: tf.Tensor, *, training: bool = False) -> tf.Tensor:
        """Scores of each word of the labels after the right words before it: float32 [batch, words, classes].

        label: int64 [batch, words], classes and padding.
        """
        return self.forced_after(self.read(features, training=training), label, training=training)

    def forced_after(self, read: Read, label: tf.Tensor, *, training: bool = False) -> tf.Tensor:
        """The same for sources that are read already."""
        previous = tf.concat([tf.fill([tf.shape(label)[0], 1], tf.constant(START, label.dtype)), label[:, :-1]], axis=1)
        return self.step(previous, read, training=training)[0]

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step of the optimizer, as in keras.Model.train_step but with the loss over all words."""
        features, label, _ = keras.utils.unpack_x_y_sample_weight(data)
        label = cut(label)
        with tf.GradientTape() as tape:
            scores = self.forced(features, label, training=True)
            loss = word_loss(label, scores)
            replicas = tf.distribute.get_strategy().num_replicas_in_sync
            scaled = self.optimizer.scale_loss(loss / replicas)
        weights = self.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(scaled, weights), weights, strict=True))
        return self._count(features, label, scores, loss)

    def test_step(self, data: Any) -> dict[str, Any]:
        """The loss and the metrics over all words."""
        features, label, _ = keras.utils.unpack_x_y_sample_weight(data)
        label = cut(label)
        scores = self.forced(features, label)
        return self._count(features, label, scores, word_loss(label, scores))

    def compute_loss(self, x: Any = None, y: Any = None, *_: Any, training: bool = True, **__: Any) -> tf.Tensor:
        """The loss of training, whatever the model predicts as the first word."""
        label = cut(y)
        return word_loss(label, self.forced(x, label, training=training))

    def _count(self, features: Any, label: tf.Tensor, scores: tf.Tensor, loss: tf.Tensor) -> dict[str, Any]:
        """Update loss and metrics, in which each word counts the same."""
        known = tf.reshape(tf.cast(label >= 0, tf.float32), [-1])
        self._loss_tracker.update_state(loss, sample_weight=tf.reduce_sum(known))
        probabilities = tf.nn.softmax(tf.reshape(scores, [-1, scores.shape[-1]]))
        return self.compute_metrics(features, tf.reshape(tf.maximum(label, 0), [-1]), probabilities, known)


def word_loss(label: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """The mean cross-entropy over all words of labels [batch, words], from scores [batch, words, classes]."""
    known = tf.cast(label >= 0, tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(label, 0), scores)
    return tf.math.divide_no_nan(tf.reduce_sum(losses * known), tf.reduce_sum(known))


@keras.saving.register_keras_serializable("headrace")
class Start(keras.layers.Layer):
    """START for each text: words [batch, words] → int64 [batch, 1]."""

    def call(self, words: keras.KerasTensor) -> keras.KerasTensor:
        """words: of the source."""
        return keras.ops.full_like(words[:, :1], START)


@keras.saving.register_keras_serializable("headrace")
class Present(keras.layers.Layer):
    """Which positions are words and not padding: words [batch, words] → bool of the same shape."""

    def call(self, words: keras.KerasTensor) -> keras.KerasTensor:
        """words: output of Words."""
        return keras.ops.greater(words, 0)


@keras.saving.register_keras_serializable("headrace")
class Memory(keras.layers.Dense):
    """The encoder's states for the attention, without the mask that Keras attaches to them: `present` has it."""

    def compute_mask(self, inputs: Any, mask: Any = None) -> None:  # noqa: ARG002 - Keras passes it
        return
