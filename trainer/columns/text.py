"""`column: text`: the words of a text, in order."""

from __future__ import annotations

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import TextFeature
from headrace.trainer.columns.base import PADDING, Analyzer, Batch, Categories, CategoryColumn, VocabularySize
from headrace.trainer.columns.raw import RawTensor, as_ragged
from headrace.trainer.columns.vocabulary import Vocabulary

SPACE = r"\t-\r\x1c-\x20\x{85}\p{Z}"
"""White space as in Python's str.isspace, inside a class of an RE2 regular expression."""
MARK = rf"[^\pL\pN\pM_{SPACE}]"
"""A punctuation mark or symbol: anything but a letter, digit, combining mark, `_` or white space."""


class TextColumn(CategoryColumn[TextFeature]):
    """Ids of the words in a vocabulary (see `Vocabulary`), or their hash buckets.

    Ragged [batch, words], or [batch, max_tokens] padded with PADDING.
    """

    def __init__(self, name: str, feature: TextFeature) -> None:
        super().__init__(name, feature)
        self.multivalued = True
        self.width = feature.max_tokens if feature.padded else None
        self.vocabulary = Vocabulary(name, self.key, feature)

    def num_categories(self, vocabulary_size: VocabularySize) -> int:
        """The hash buckets, or the vocabulary with its out-of-vocabulary buckets.

        Raises TrainingError if the learned vocabulary is empty.
        """
        if self.feature.hash_buckets is not None:
            return self.feature.hash_buckets
        return self.vocabulary.size(vocabulary_size) + self.feature.oov_buckets

    def analyzers(self) -> list[Analyzer]:
        """The vocabulary, unless the config gives it."""
        return [] if self.feature.hash_buckets is not None else [*self.vocabulary.analyzers()]

    def vocabulary_texts(self, batch: Batch) -> tf.Tensor:
        return batch.words(self).flat_values

    def categories(self, batch: Batch) -> Categories:
        """The ids of all words."""
        ids = self.word_ids(batch.words(self).flat_values, batch)
        return Categories(ids, tf.ones_like(ids, tf.bool), 0)

    def transform(self, batch: Batch) -> tf.Tensor | tf.RaggedTensor:
        """The word ids of each text."""
        ids = batch.words(self).with_flat_values(batch.categories(self).ids)
        if self.width is None:
            return ids
        return ids.to_tensor(tf.constant(PADDING, tf.int64), shape=[None, self.width])

    def word_ids(self, words: tf.Tensor, batch: Batch) -> tf.Tensor:
        """The categories of words: int64 of the same shape."""
        if self.feature.hash_buckets is not None:
            return tf.strings.to_hash_bucket_fast(words, self.feature.hash_buckets)
        return self.vocabulary.look_up(words, batch)[0]

    def words(self, tensor: RawTensor) -> tf.RaggedTensor:
        """Return the words of a data column after truncation: string [batch, words]."""
        values = as_ragged(tensor)
        if values.dtype.is_floating:
            raise TrainingError(
                f"features.{self.name}: data column {self.key!r} holds fractional numbers, and a text has words. Make"
                " the feature `column: numeric` or `column: bucketized`, or correct the type of the data column"
            )
        if values.dtype != tf.string:
            values = tf.ragged.map_flat_values(tf.strings.as_string, values)
        values = values if self.feature.multivalued else values[:, :1]
        words = self.tokens(tf.strings.reduce_join(values, axis=-1, separator=" "))
        if self.feature.max_tokens is None:
            return words
        return (
            words[:, : self.feature.max_tokens]
            if self.feature.keep == "first"
            else words[:, -self.feature.max_tokens :]
        )

    def tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Split texts [batch] into all of their words: string [batch, words]."""
        if self.feature.lowercase:
            texts = tf.strings.lower(texts, encoding="utf-8")
        if self.feature.split == "words":
            texts = tf.strings.regex_replace(texts, f"{MARK}+", "")
        elif self.feature.split == "marks":
            texts = tf.strings.regex_replace(texts, f"({MARK})", r" \1 ")
        return tf.strings.split(tf.strings.regex_replace(texts, f"[{SPACE}]+", " "))
