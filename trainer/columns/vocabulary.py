"""`column: vocabulary`: the place of a string or integer in a vocabulary."""

from __future__ import annotations

import tensorflow as tf

from headrace.configs.features import VocabularyFeature
from headrace.trainer.columns.base import CategoryColumn
from headrace.trainer.columns.batch import Batch, Categories, Wish
from headrace.trainer.columns.lookup import Vocabulary, VocabularySize


class VocabularyColumn(CategoryColumn[VocabularyFeature]):
    """The place in the vocabulary (see `Vocabulary`); after its out-of-vocabulary buckets comes the missing value's
    category.
    """

    def __init__(self, name: str, feature: VocabularyFeature) -> None:
        super().__init__(name, feature)
        self._vocabulary = Vocabulary(name, self.key, feature, feature.missing)

    def num_categories(self, vocabulary_size: VocabularySize) -> int:
        """Vocabulary, out-of-vocabulary buckets, and one for the missing value if nothing stands in for it.

        Raises TrainingError if nothing was learned.
        """
        return self._vocabulary.size(vocabulary_size) + self.feature.oov_buckets + (self.feature.missing is None)

    def wishes(self) -> list[Wish]:
        """The vocabulary, where none is given."""
        return [*self._vocabulary.wishes()]

    def texts(self, batch: Batch) -> tf.Tensor:
        """The values."""
        text, known = self.raw(batch).filled_text(self.feature.missing)
        return tf.where(known, text, "")

    def categories(self, batch: Batch) -> Categories:
        """The places in the vocabulary."""
        text, known = self.raw(batch).filled_text(self.feature.missing)
        ids, size = self._vocabulary.look_up(text, batch)
        return Categories(ids, known, size)
