"""What every kind of feature column is: one half in the Transform graph, the other in the Keras model."""

from __future__ import annotations

import abc
import contextlib
import math
import warnings
from collections.abc import Iterator
from typing import Generic, TypeVar

import keras
import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.configs.features import CategoricalFeature, CustomFeature, Embedding, NumericFeature
from headrace.configs.image import ImageFeature
from headrace.trainer.columns.batch import Batch, Categories, Raw, Wish
from headrace.trainer.columns.lookup import VocabularySize

FeatureT = TypeVar("FeatureT", bound=CategoricalFeature | NumericFeature | CustomFeature | ImageFeature)
CategoricalT = TypeVar("CategoricalT", bound=CategoricalFeature | CustomFeature)

PADDING = -1
"""No category: what fills up the rows where a feature with several values in an example is a dense tensor."""


@contextlib.contextmanager
def inputs_named_apart() -> Iterator[None]:
    """While it lasts, Keras does not warn of models whose inputs are named otherwise than the features: on purpose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="When providing `inputs` as a dict")
        yield


class Column(abc.ABC, Generic[FeatureT]):
    """One feature. `transform` is its half in the Transform graph; the other methods are its half in the model."""

    dtype: str
    """Of the transformed tensor: float32 (a number) or int64 (a category)."""
    several = False
    """Whether an example has any number of values: the tensor is ragged, [batch, values], or where `width` says so
    [batch, width], filled up with PADDING. Otherwise it is [batch].
    """
    width: int | None = None
    """Values of each example where there are several and the tensor is dense."""

    def __init__(self, name: str, feature: FeatureT) -> None:
        self.name = name
        self.feature = feature

    @abc.abstractmethod
    def transform(self, batch: Batch) -> tf.Tensor | tf.RaggedTensor:
        """The feature of a raw batch: [batch] of `dtype`, or all values where there are several."""

    def texts(self, batch: Batch) -> tf.Tensor:
        """What a vocabulary that it wishes for is learned from: strings, "" where missing."""
        raise NotImplementedError

    def wishes(self) -> list[Wish]:
        """What it needs to know of the whole train split: `batch.answer` gives it."""
        return []

    @abc.abstractmethod
    def num_categories(self, vocabulary_size: VocabularySize) -> int | None:
        """How many categories there are, the missing value's among them; None for a number."""

    @property
    def input_name(self) -> str:
        """The name of the model's input, told apart from any layer of a builder, where names must be unique and without
        slashes; a feature may be called `deep` or `miles/h`.
        """
        return f"{self.name.replace('/', '_slash_')}_input"

    def keras_input(self) -> keras.KerasTensor:
        """The model's input: as the transformed tensor."""
        if not self.several:
            return keras.Input(shape=(), name=self.input_name, dtype=self.dtype)
        return keras.Input(shape=(self.width,), name=self.input_name, dtype=self.dtype, ragged=self.width is None)


class NumberColumn(Column[FeatureT]):
    """A feature that is a number: the deep part takes it as it is, the wide part does not see it."""

    dtype = "float32"

    def num_categories(self, vocabulary_size: VocabularySize) -> None:  # noqa: ARG002
        """None: it is a number."""
        return


class CategoryColumn(Column[CategoricalT]):
    """A feature that is a category, or several."""

    dtype = "int64"

    def __init__(self, name: str, feature: CategoricalT) -> None:
        super().__init__(name, feature)
        self.several = bool(getattr(feature, "multivalued", False))

    @property
    def key(self) -> str:
        """The data column, where it is one."""
        return getattr(self.feature, "key", None) or self.name

    @abc.abstractmethod
    def categories(self, batch: Batch) -> Categories:
        """The category of each example (or value), before the missing value's."""

    def raw(self, batch: Batch) -> Raw:
        """The data column: the first value of each example, or all where several count."""
        return batch.values(self) if self.several else batch.raw(self.key)

    def usable(self, raw: Raw) -> tf.Tensor:
        """Which of several values are not left out beside others: bool, as `raw.values`."""
        return raw.present

    def transform(self, batch: Batch) -> tf.Tensor | tf.RaggedTensor:
        """The category of each example, or the categories."""
        numbered = batch.categories(self).numbered()
        if not self.several:
            return numbered
        return tf.RaggedTensor.from_row_lengths(numbered, batch.values(self).lengths)

    def one_each(self, batch: Batch) -> Categories:
        """The one category of each example. Raises TrainingError where there may be several."""
        if self.several:
            raise TrainingError(
                f"features.{self.name} may have several values in an example, and a cross takes one of each key. Cross"
                " a feature of the same column without `multivalued`, which takes the first"
            )
        return batch.categories(self)

    @abc.abstractmethod
    def num_categories(self, vocabulary_size: VocabularySize) -> int:
        """How many categories there are, the missing value's among them."""

    def embedding_width(self, num_categories: int, default: Embedding) -> int | None:
        """Width of the embedding; None for one-hot. `default` is `model.embedding`."""
        embedding = self.feature.embedding if self.feature.embedding is not None else default
        if embedding == "one_hot":
            return None
        return math.ceil(num_categories**0.25) if embedding == "auto" else int(embedding)
