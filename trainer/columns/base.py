"""What every kind of feature column is: one half in the Transform graph, the other in the Keras model."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Generic, TypeVar

import keras
import tensorflow as tf

from configs.features import CategoricalFeature, CustomFeature, Embedding, NumericFeature
from trainer.columns.batch import Batch, Categories, Wish

FeatureT = TypeVar("FeatureT", bound=CategoricalFeature | NumericFeature | CustomFeature)
CategoricalT = TypeVar("CategoricalT", bound=CategoricalFeature | CustomFeature)

VocabularySize = Callable[[str], int]
"""Number of entries of the learned vocabulary of that name: `TFTransformOutput.vocabulary_size_by_name`."""


class Column(abc.ABC, Generic[FeatureT]):
    """One feature. `transform` is its half in the Transform graph; the other methods are its half in the model."""

    dtype: str
    """Of the transformed tensor: float32 (a number) or int64 (a category); its shape is [batch]."""

    def __init__(self, name: str, feature: FeatureT) -> None:
        self.name = name
        self.feature = feature

    @abc.abstractmethod
    def transform(self, batch: Batch) -> tf.Tensor:
        """The feature of a raw batch: [batch] of `dtype`."""

    def wishes(self) -> list[Wish]:
        """What it needs to know of the whole train split: `batch.answer` gives it."""
        return []

    @abc.abstractmethod
    def num_categories(self, vocabulary_size: VocabularySize) -> int | None:
        """How many categories there are, the missing value's among them; None for a number."""

    def keras_input(self) -> keras.KerasTensor:
        """The model's input: [batch] of `dtype`. Its name tells it apart from any layer of a builder, where names must
        be unique and without slashes; a feature may be called `deep` or `miles/h`.
        """
        return keras.Input(shape=(), name=f"{self.name.replace('/', '_slash_')}_input", dtype=self.dtype)


class NumberColumn(Column[FeatureT]):
    """A feature that is a number: the deep part takes it as it is, the wide part does not see it."""

    dtype = "float32"

    def num_categories(self, vocabulary_size: VocabularySize) -> None:  # noqa: ARG002
        """None: it is a number."""
        return


class CategoryColumn(Column[CategoricalT]):
    """A feature that is a category."""

    dtype = "int64"

    @abc.abstractmethod
    def categories(self, batch: Batch) -> Categories:
        """The category of each example, before the missing value's."""

    def transform(self, batch: Batch) -> tf.Tensor:
        """The category of each example."""
        return batch.categories(self).numbered()

    @abc.abstractmethod
    def num_categories(self, vocabulary_size: VocabularySize) -> int:
        """How many categories there are, the missing value's among them."""

    def embedding_width(self, num_categories: int, default: Embedding) -> int | None:
        """Width of the embedding; None for one-hot. `default` is `model.embedding`."""
        embedding = self.feature.embedding if self.feature.embedding is not None else default
        if embedding == "one_hot":
            return None
        return math.ceil(num_categories**0.25) if embedding == "auto" else int(embedding)
