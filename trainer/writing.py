"""The signatures of a model that writes a text from another one (`label.kind: text`).

serving_default, serving_raw, serving_transformed   as of every model, but → {"text": string [batch], the most probable
                    word at each place; "words": string [batch, max_tokens], "" after the end}
generate            {the raw columns by name, as in serving_raw; "prompt": string [batch], with which the text begins,
                    or ""; "length": int32 [], the most words to add; "temperature", "top_k", "top_p", "seed": as of a
                    next-word model} → {"text": string [batch], the prompt and the words; "words": string [batch,
                    length], "" after the end}
score               {"examples": string [batch]}, with labels → {"predictions": float32 [batch, max_tokens + 1, 3]}

For each word of the label, after the right words before it, `score` has its probability; how many classes are more
probable, or -1 if it is not in the vocabulary; and the class of the most probable word that can be written. Rows are
padded with the probability 0 and the class -1. The Evaluator needs no more. The probabilities of all words of all rows
would not fit in memory, so they are computed for a few rows at a time.

A text ends where its end is chosen. The unknown word is never chosen. An input of `generate` whose name is that of a
data column gets the suffix `_`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import tensorflow as tf
import tensorflow_transform as tft

from headrace.configs.schema.label import LabelConfig
from headrace.trainer.columns import PADDING
from headrace.trainer.generation import GENERATE, INPUT, checked_length, choose, option_names, vocabulary
from headrace.trainer.served_model import PREDICTIONS, SCORE
from headrace.trainer.signatures import Signatures
from headrace.trainer.target import END, END_NAME, START, cut, target_column

Tensors = dict[str, tf.Tensor]
TEXT, WORDS = "text", "words"
"""The outputs of all signatures that write."""
NOT_KNOWN = -1
"""In place of a number of words, for a word outside the vocabulary."""
SLICE = 1 << 24
"""The most probabilities that `score` holds at once: 64 MiB, in each of a few tensors."""


class WritingModel(Protocol):
    """What is called of the model: `headrace.trainer.models.encoder_decoder.EncoderDecoder`.

    It is not imported, so that a change of its code concerns the trainings of its kind alone.
    """

    def read(self, features: Any, /) -> Any: ...
    def step(self, previous: tf.Tensor, read: Any, /) -> tuple[tf.Tensor, tf.Tensor]: ...
    def forced_after(self, read: Any, label: tf.Tensor, /) -> tf.Tensor: ...


def class_names(label: LabelConfig, output: tft.TFTransformOutput) -> tuple[str, ...]:
    """The classes in order, without the last one, which stands for all words outside the vocabulary."""
    return (END_NAME, *vocabulary(target_column(label), output))


def install(signatures: Signatures, label: LabelConfig, output: tft.TFTransformOutput) -> None:
    """Give the signatures of an EncoderDecoder the answers above."""
    most = label.text_feature.max_tokens or 0
    writer = Writer(signatures.model, class_names(label, output), most)
    named = signatures.all()["serving_raw"][1]
    options = option_names({spec.name for spec in named.values()})

    def generate(tensors: Tensors) -> Tensors:
        given = {name: tensors[option] for name, option in options.items()}
        raw = {name: tensors[name] for name in named}
        features, begun = signatures.features_with_label(raw, given["prompt"])
        return writer.write(features, Prompt(given["prompt"], begun), given)

    specs = {options[name]: tf.TensorSpec(spec.shape, spec.dtype, name=options[name]) for name, spec in INPUT.items()}
    signatures.answer = writer.most_probable
    signatures.additional[GENERATE] = generate, {**named, **specs}
    examples = tf.TensorSpec([None], tf.string, name="examples")
    signatures.additional[SCORE] = (lambda given: writer.score(*signatures.examples_with_label(given))), examples


class Prompt(NamedTuple):
    """How texts begin: as they were given, string [batch], and as transformed labels, int64 [batch, max_tokens + 1]."""

    text: tf.Tensor
    label: tf.Tensor

    @property
    def lengths(self) -> tf.Tensor:
        """Words of each, int32 [batch]: a label has an end, which does not count."""
        return tf.reduce_sum(tf.cast(self.label > END, tf.int32), axis=1)


class Writer(NamedTuple):
    """A model that writes. names: of its classes; most: the most words of a text, unless the request says it."""

    model: WritingModel
    names: tuple[str, ...]
    most: int

    def most_probable(self, features: Tensors) -> Tensors:
        """What the serving signatures return."""
        read = self.model.read(features)
        batch = tf.shape(read.state)[0]
        prompt = Prompt(tf.fill([batch], ""), tf.fill([batch, 1], tf.constant(END, tf.int64)))
        greedy = {"length": self.most, "temperature": 0.0, "top_k": 0, "top_p": 1.0}
        inputs = {name: tf.constant(value, INPUT[name].dtype) for name, value in greedy.items()}
        return self._write(read, prompt, {**inputs, "seed": tf.constant(0, tf.int64)})

    def write(self, features: Tensors, prompt: Prompt, inputs: Tensors) -> Tensors:
        """Signature `generate`. inputs: of INPUT."""
        return self._write(self.model.read(features), prompt, {**inputs, "length": checked_length(inputs)})

    def _write(self, read: Any, prompt: Prompt, inputs: Tensors) -> Tensors:
        length, begun = inputs["length"], prompt.lengths
        total = length + tf.maximum(tf.reduce_max(begun), 0)  # of no texts, it is the smallest integer
        written = self._classes(read, prompt, inputs, total)
        positions = begun[:, tf.newaxis] + tf.range(length)
        new = tf.gather(tf.pad(written, [[0, 0], [0, 1]]), tf.minimum(positions, tf.shape(written)[1]), batch_dims=1)
        is_word = tf.cumsum(tf.cast(new == END, tf.int32), axis=1) == 0
        words = tf.where(is_word, tf.gather(tf.constant(self.names), new), "")
        added = tf.strings.reduce_join(words, axis=1, separator=" ")
        text = tf.strings.strip(tf.strings.join([prompt.text, added], " "))
        return {TEXT: text, WORDS: words}

    def _classes(self, read: Any, prompt: Prompt, inputs: Tensors, total: tf.Tensor) -> tf.Tensor:
        """The classes of prompts and what follows, int64 [batch, total]: END from the end on."""
        batch, begun = tf.shape(read.state)[0], prompt.lengths
        given = tf.pad(prompt.label, [[0, 0], [0, total]], constant_values=END)[:, :total]

        def going_on(place: tf.Tensor, *state: Any) -> tf.Tensor:
            return (place < total) & ~tf.reduce_all(state[2])

        def add_word(place: Any, previous: Any, state: Any, ended: Any, written: Any) -> tuple[Any, ...]:
            scores, state = self.model.step(previous[:, tf.newaxis], read._replace(state=state))
            known = tf.nn.softmax(scores[:, 0])[:, :-1]  # the last class is for unknown words
            chosen = choose(known, inputs, tf.stack([inputs["seed"], tf.cast(place, tf.int64)]))
            word = tf.where(place < begun, given[:, place], tf.where(ended, tf.constant(END, tf.int64), chosen))
            ended = ended | ((place >= begun) & (word == END))
            return place + 1, word, state, ended, written.write(place, word)

        written = tf.TensorArray(tf.int64, size=total, element_shape=[None], clear_after_read=False)
        begin = tf.constant(0), tf.fill([batch], tf.constant(START, tf.int64)), read.state, tf.zeros([batch], tf.bool)
        place, *_, written = tf.while_loop(going_on, add_word, (*begin, written))
        rest = tf.fill([batch, total - place], tf.constant(END, tf.int64))
        stacked = tf.transpose(tf.reshape(written.gather(tf.range(place)), [place, batch]))
        return tf.concat([stacked, rest], axis=1)

    def score(self, features: Tensors, label: tf.Tensor, most: int = SLICE) -> Tensors:
        """Signature `score`. label: transformed; most: the numbers of a slice, which has at least one row."""
        words, read = cut(label), self.model.read(features)
        rows, source = tf.shape(words)[0], tf.size(read.memory[:1])  # additive attention: a vector per pair of words
        per_row = tf.size(words[:1], tf.int64) * tf.cast(tf.maximum(source, len(self.names) + 1), tf.int64)
        height = tf.cast(tf.maximum(most // tf.maximum(per_row, 1), 1), tf.int32)
        number = tf.maximum(-(-rows // height), 1)

        def score_slice(place: tf.Tensor, found: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            part = slice(place * height, (place + 1) * height)
            scores = self.model.forced_after(type(read)(*(tensor[part] for tensor in read)), words[part])
            return place + 1, found.write(place, _of_words(tf.nn.softmax(scores), words[part]))

        found = tf.TensorArray(tf.float32, size=number, infer_shape=False, element_shape=[None, None, 3])
        begin = tf.constant(0), found
        _, found = tf.while_loop(lambda place, _: place < number, score_slice, begin, parallel_iterations=1)
        whole = tf.pad(found.concat(), [[0, 0], [0, tf.shape(label)[1] - tf.shape(words)[1]], [0, 0]])
        padded = tf.where(label[..., tf.newaxis] != PADDING, whole, [0.0, 0.0, float(PADDING)])
        return {PREDICTIONS: tf.ensure_shape(padded, [None, label.shape[1], 3])}


def _of_words(p: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """What `score` returns: float32 [batch, words, 3]. p: probabilities [batch, words, classes]; words: of labels."""
    classes = p.shape[-1]
    own = tf.gather(p, tf.maximum(words, 0), batch_dims=2)
    before = tf.range(classes, dtype=tf.int64) < words[..., tf.newaxis]  # of equal ones the first, as argmax
    ahead = (p > own[..., tf.newaxis]) | ((p == own[..., tf.newaxis]) & before)
    rank = tf.where(words == classes - 1, NOT_KNOWN, tf.reduce_sum(tf.cast(ahead, tf.int32), axis=2))
    best = tf.argmax(p[..., :-1], axis=2)
    return tf.stack([own, tf.cast(rank, tf.float32), tf.cast(best, tf.float32)], axis=2)
