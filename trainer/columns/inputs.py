"""All features of a model as Keras inputs, and the two forms in which a model takes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import keras

from headrace.configs.features import Embedding
from headrace.trainer.columns.base import CategoryColumn, Column, NumberColumn
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
from headrace.trainer.columns.lookup import VocabularySize


class ModelInputs:
    """The transformed features as Keras inputs. A builder composes them:

        def build(features: ModelInputs, label: LabelConfig, model: ModelConfig) -> keras.Model:
            deep = keras.layers.Dense(64, activation="relu")(features.deep())
            logits = keras.layers.Dense(label.num_classes)(deep) + features.wide(label.num_classes)
            return keras.Model(features.inputs, keras.layers.Activation("sigmoid")(logits))

    inputs: name of the feature → its keras.Input, [batch] of int64 (a category) or float32 (a number); where an example
    may have several categories, ragged [batch, values] or filled up with -1.
    num_categories: name of each categorical feature → its number of categories, the missing value's among them.
    """

    def __init__(
        self, columns: Mapping[str, Column], vocabulary_size: VocabularySize, embedding: Embedding = "auto"
    ) -> None:
        """columns: from `headrace.trainer.columns.build`; vocabulary_size: from
        `headrace.trainer.columns.vocabulary_size`; embedding: `model.embedding`. Raises TrainingError if a learned
        vocabulary is empty.
        """
        self.columns = columns
        self.embedding: Embedding = embedding
        self.inputs = {name: column.keras_input() for name, column in columns.items()}
        sizes = {name: column.num_categories(vocabulary_size) for name, column in columns.items()}
        self.num_categories: dict[str, int] = {name: size for name, size in sizes.items() if size is not None}

    def deep(self, but: Collection[str] = ()) -> keras.KerasTensor | None:
        """float32 [batch, width]: the numbers, then of the categories with `deep: true` the embeddings, narrow ones
        first, then the one-hot codes; then the same of the features with several values in an example, pooled. None if
        no feature is left for it. but: names of features that are left out.
        """
        numbers = [
            name for name, column in self.columns.items() if isinstance(column, NumberColumn) and name not in but
        ]
        parts = [Numbers(name="numbers")(self._of(numbers))] if numbers else []
        categorical = [column for column in self._categorical() if column.feature.deep and column.name not in but]
        parts += self._embedded([column for column in categorical if not column.several])
        parts += self._pooled([column for column in categorical if column.several])
        if len(parts) < 2:
            return parts[0] if parts else None
        return keras.layers.Concatenate(name="deep")(parts)

    def images(self) -> dict[str, keras.KerasTensor]:
        """Name of each image → float32 [batch, height, width, channels] between 0 and 1."""
        images = [column for column in self.columns.values() if isinstance(column, ImageColumn)]
        return {column.name: column.scaled(self.inputs[column.name]) for column in images}

    def wide(self, units: int) -> keras.KerasTensor | None:
        """float32 [batch, units]: the sum of one weight per unit for the category of each feature with `wide: true`, or
        for all its values; the weights start at zero. None if no feature is left for it.
        """
        seen = [column for column in self._categorical() if column.feature.wide]
        one = [column.name for column in seen if not column.several]
        several = [column.name for column in seen if column.several]
        name = "wide_terms" if one and several else "wide"
        parts = [LinearTerms(self._sizes(one), units, name=name)(self._of(one))] if one else []
        if several:
            name = "wide_sums" if one else "wide"
            parts.append(LinearSums(self._sizes(several), units, name=name)(self._of(several)))
        if len(parts) < 2:
            return parts[0] if parts else None
        return keras.layers.Add(name="wide")(parts)

    def width(self, name: str) -> int | None:
        """Width of the embedding of a categorical feature; None for one-hot codes."""
        column = self.columns[name]
        assert isinstance(column, CategoryColumn)  # noqa: S101 - the caller has looked
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
