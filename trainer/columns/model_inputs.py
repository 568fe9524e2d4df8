"""All features of a model as Keras inputs, and the deep and wide combinations in which models take them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import keras

from headrace.configs.schema.features import Embedding
from headrace.trainer.columns.base import CategoryColumn, Column, NumberColumn, VocabularySize
from headrace.trainer.columns.image import ImageColumn
from headrace.trainer.columns.layers import (
    Embeddings,
    LinearSums,
    LinearTerms,
    MultiHots,
    Numbers,
    OneHots,
    PooledEmbeddings,
)
from headrace.trainer.columns.text_embedding import TextEmbeddingColumn


class ModelInputs:
    """The transformed features as Keras inputs. A builder composes them:

        def build(features: ModelInputs, label: LabelConfig, model: ModelConfig) -> keras.Model:
            deep = keras.layers.Dense(64, activation="relu")(features.deep())
            logits = keras.layers.Dense(label.num_classes)(deep) + features.wide(label.num_classes)
            return keras.Model(features.inputs, keras.layers.Activation("sigmoid")(logits))

    inputs: name of the feature → its keras.Input, [batch] of int64 (a category) or float32 (a number); for a vector
    [batch, size]; for a multivalued feature ragged [batch, values], or padded with -1. That of an embedded text is
    string [batch], and `numbers` and `deep` have its vector.
    num_categories: name of each categorical feature → its number of categories, including the one for missing values.
    """

    def __init__(
        self, columns: Mapping[str, Column], vocabulary_size: VocabularySize, embedding: Embedding = "auto"
    ) -> None:
        """Create the inputs. Raises TrainingError if a learned vocabulary is empty.

        Args:
            columns: From `headrace.trainer.columns.build`.
            vocabulary_size: From `headrace.trainer.columns.vocabulary_size`.
            embedding: `model.embedding`.
        """
        self.columns = columns
        self.embedding: Embedding = embedding
        self.inputs = {name: column.keras_input() for name, column in columns.items()}
        sizes = {name: column.num_categories(vocabulary_size) for name, column in columns.items()}
        self.num_categories: dict[str, int] = {name: size for name, size in sizes.items() if size is not None}
        self._vectors: dict[str, keras.KerasTensor] = {}

    def deep(self, exclude: Collection[str] = ()) -> keras.KerasTensor | None:
        """All features for dense layers, float32 [batch, width]; None if there are none.

        The numbers come first, then the embeddings of categories with `deep: true`, narrow ones first, then their
        one-hot codes, and finally the same of multivalued features, pooled.

        exclude: names of features to leave out.
        """
        numbers = self.numbers(exclude)
        parts = [] if numbers is None else [numbers]
        categorical = [column for column in self._categorical() if column.feature.deep and column.name not in exclude]
        parts += self._embedded([column for column in categorical if not column.multivalued])
        parts += self._pooled([column for column in categorical if column.multivalued])
        if len(parts) < 2:
            return parts[0] if parts else None
        return keras.layers.Concatenate(name="deep")(parts)

    def numbers(self, exclude: Collection[str] = (), name: str = "numbers") -> keras.KerasTensor | None:
        """The numbers alone, with those of vectors and of embedded texts, float32 [batch, numbers]; None if there are
        none.

        Args:
            exclude: Names of features to leave out.
            name: Name of the layer; a model that calls this and `deep` needs two.
        """
        names = [one for one, column in self.columns.items() if isinstance(column, NumberColumn) and one not in exclude]
        return Numbers(name=name)([self._numbers_of(one) for one in names]) if names else None

    def _numbers_of(self, name: str) -> keras.KerasTensor:
        """The input of a number; of an embedded text its vector, from a network that all parts of the model share."""
        column = self.columns[name]
        if not isinstance(column, TextEmbeddingColumn):
            return self.inputs[name]
        if name not in self._vectors:
            self._vectors[name] = column.vectors(self.inputs[name])
        return self._vectors[name]

    def images(self) -> dict[str, keras.KerasTensor]:
        """Name of each image → float32 [batch, height, width, channels] between 0 and 1."""
        images = [column for column in self.columns.values() if isinstance(column, ImageColumn)]
        return {column.name: column.scaled(self.inputs[column.name]) for column in images}

    def wide(self, units: int) -> keras.KerasTensor | None:
        """A linear model over the categories, float32 [batch, units]; None if no feature has `wide: true`.

        It is the sum of one weight per unit for the category of each feature, or for all of its values. The weights
        start at zero.
        """
        seen = [column for column in self._categorical() if column.feature.wide]
        one = [column.name for column in seen if not column.multivalued]
        multivalued = [column.name for column in seen if column.multivalued]
        name = "wide_terms" if one and multivalued else "wide"
        parts = [LinearTerms(self._sizes(one), units, name=name)(self._of(one))] if one else []
        if multivalued:
            name = "wide_sums" if one else "wide"
            parts.append(LinearSums(self._sizes(multivalued), units, name=name)(self._of(multivalued)))
        if len(parts) < 2:
            return parts[0] if parts else None
        return keras.layers.Add(name="wide")(parts)

    def width(self, name: str) -> int | None:
        """Width of the embedding of a categorical feature; None for one-hot codes."""
        column = self.columns[name]
        assert isinstance(column, CategoryColumn)  # noqa: S101 - only categorical features have a width
        return column.embedding_width(self.num_categories[name], self.embedding)

    def _embedded(self, columns: list[CategoryColumn]) -> list[keras.KerasTensor]:
        by_width: dict[int, list[str]] = {}
        for column in columns:
            by_width.setdefault(self.width(column.name) or 0, []).append(column.name)
        one_hot = by_width.pop(0, [])
        parts = [
            Embeddings(self._sizes(names), width, name=f"embeddings_{width}")(self._of(names))
            for width, names in sorted(by_width.items())
        ]
        if one_hot:
            parts.append(OneHots(self._sizes(one_hot), name="one_hot")(self._of(one_hot)))
        return parts

    def _pooled(self, columns: list[CategoryColumn]) -> list[keras.KerasTensor]:
        by_kind: dict[tuple[int, str], list[str]] = {}
        for column in columns:
            kind = (self.width(column.name) or 0, getattr(column.feature, "combiner", None) or "mean")
            by_kind.setdefault(kind, []).append(column.name)
        parts = []
        for (width, combiner), names in sorted(by_kind.items(), key=lambda one: (one[0][0] == 0, one[0])):
            sizes = self._sizes(names)
            layer = (
                PooledEmbeddings(sizes, width, combiner, name=f"pooled_{width}_{combiner}")
                if width
                else MultiHots(sizes, combiner, name=f"multi_hot_{combiner}")
            )
            parts.append(layer(self._of(names)))
        return parts

    def _categorical(self) -> list[CategoryColumn]:
        return [column for column in self.columns.values() if isinstance(column, CategoryColumn)]

    def _of(self, names: Iterable[str]) -> list[keras.KerasTensor]:
        return [self.inputs[name] for name in names]

    def _sizes(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.num_categories[name] for name in names)
