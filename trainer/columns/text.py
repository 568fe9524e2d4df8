"""`column: text`: the words of a text, in order."""

from __future__ import annotations

import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.configs.features import TextFeature
from headrace.trainer.columns.base import PADDING, CategoryColumn
from headrace.trainer.columns.batch import Batch, Categories, RawTensor, Wish, as_ragged
from headrace.trainer.columns.lookup import Vocabulary, VocabularySize

SPACE = r"\t-\r\x1c-\x20\x{85}\p{Z}"
"""White space as Python's str.isspace has it, inside a class of an RE2 regular expression."""
MARK = rf"[^\pL\pN\pM_{SPACE}]"
"""A punctuation mark or symbol: what is no letter, digit, combining mark, `_` or white space."""


class TextColumn(CategoryColumn[TextFeature]):
    """Places of the words in a vocabulary (see `Vocabulary`), or their hash buckets: ragged [batch, words], or
    [batch, max_tokens] filled up with PADDING.
    """

    def __init__(self, name: str, feature: TextFeature) -> None:
        super().__init__(name, feature)
        self.several = True
        self.width = feature.max_tokens if feature.padded else None
        self.vocabulary = Vocabulary(name, self.key, feature)

    def num_categories(self, vocabulary_size: VocabularySize) -> int:
        """The hash buckets; or the vocabulary with its out-of-vocabulary buckets. Raises TrainingError if nothing was
        learned.
        """
        if self.feature.hash_buckets is not None:
            return self.feature.hash_buckets
        return self.vocabulary.size(vocabulary_size) + self.feature.oov_buckets

    def wishes(self) -> list[Wish]:
        """The vocabulary, where none is given."""
        return [] if self.feature.hash_buckets is not None else [*self.vocabulary.wishes()]

    def texts(self, batch: Batch) -> tf.Tensor:
        """The words that are kept."""
        return batch.words(self).flat_values

    def categories(self, batch: Batch) -> Categories:
        """The places of all words."""
        ids = self.places(batch.words(self).flat_values, batch)
        return Categories(ids, tf.ones_like(ids, tf.bool), 0)

    def transform(self, batch: Batch) -> tf.Tensor | tf.RaggedTensor:
        """The words of each text."""
        places = batch.words(self).with_flat_values(batch.categories(self).ids)
        if self.width is None:
            return places
        return places.to_tensor(tf.constant(PADDING, tf.int64), shape=[None, self.width])

    def places(self, words: tf.Tensor, batch: Batch) -> tf.Tensor:
        """The categories of some words: int64 of the same shape."""
        if self.feature.hash_buckets is not None:
            return tf.strings.to_hash_bucket_fast(words, self.feature.hash_buckets)
        return self.vocabulary.look_up(words, batch)[0]

    def words(self, tensor: RawTensor) -> tf.RaggedTensor:
        """The words of a data column, [batch, words], as they are kept."""
        pieces = as_ragged(tensor)
        if pieces.dtype.is_floating:
            raise TrainingError(
                f"features.{self.name}: data column {self.key!r} holds fractional numbers, and a text has words. Make"
                " the feature `column: numeric` or `column: bucketized`, or correct the type of the data column"
            )
        if pieces.dtype != tf.string:
            pieces = tf.ragged.map_flat_values(tf.strings.as_string, pieces)
        pieces = pieces if self.feature.multivalued else pieces[:, :1]
        words = self.tokens(tf.strings.reduce_join(pieces, axis=-1, separator=" "))
        if self.feature.max_tokens is None:
            return words
        return (
            words[:, : self.feature.max_tokens]
            if self.feature.keep == "first"
            else words[:, -self.feature.max_tokens :]
        )

    def tokens(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The words of texts [batch], all of them: [batch, words]."""
        if self.feature.lowercase:
            texts = tf.strings.lower(texts, encoding="utf-8")
        if self.feature.split == "words":
            texts = tf.strings.regex_replace(texts, f"{MARK}+", "")
        elif self.feature.split == "marks":
            texts = tf.strings.regex_replace(texts, f"({MARK})", r" \1 ")
        return tf.strings.split(tf.strings.regex_replace(texts, f"[{SPACE}]+", " "))
