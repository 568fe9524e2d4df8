"""All features of a model as Keras inputs, and the two forms in which a model takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import keras

from configs.features import Embedding
from trainer.columns.base import CategoryColumn, Column, VocabularySize
from trainer.columns.layers import Embeddings, LinearTerms, Numbers, OneHots


class ModelInputs:
    """The transformed features as Keras inputs. A builder composes them:

        def build(features: ModelInputs, label: LabelConfig, model: ModelConfig) -> keras.Model:
            deep = keras.layers.Dense(64, activation="relu")(features.deep())
            logits = keras.layers.Dense(label.num_classes)(deep) + features.wide(label.num_classes)
            return keras.Model(features.inputs, keras.layers.Activation("sigmoid")(logits))

    inputs: name of the feature → its keras.Input, [batch] of int64 (a category) or float32 (a number).
    num_categories: name of each categorical feature → its number of categories, the missing value's among them.
    """

    def __init__(
        self, columns: Mapping[str, Column], vocabulary_size: VocabularySize, embedding: Embedding = "auto"
    ) -> None:
        """columns: from `trainer.columns.build`; vocabulary_size: from `trainer.columns.vocabulary_size`; embedding:
        `model.embedding`. Raises TrainingError if a learned vocabulary is empty.
        """
        self.columns = columns
        self.embedding: Embedding = embedding
        self.inputs = {name: column.keras_input() for name, column in columns.items()}
        sizes = {name: column.num_categories(vocabulary_size) for name, column in columns.items()}
        self.num_categories: dict[str, int] = {name: size for name, size in sizes.items() if size is not None}

    def deep(self) -> keras.KerasTensor | None:
        """float32 [batch, width]: the numbers, then of the categories with `deep: true` the embeddings, narrow ones
        first, then the one-hot codes. None if no feature is left for it.
        """
        numbers = [name for name in self.columns if name not in self.num_categories]
        by_width: dict[int, list[str]] = {}
        for column in self._categorical():
            if column.feature.deep:
                width = column.embedding_width(self.num_categories[column.name], self.embedding)
                by_width.setdefault(width or 0, []).append(column.name)
        one_hot = by_width.pop(0, [])
        parts = [Numbers(name="numbers")(self._of(numbers))] if numbers else []
        for width, names in sorted(by_width.items()):
            parts.append(Embeddings(self._sizes(names), width, name=f"embeddings_{width}")(self._of(names)))
        if one_hot:
            parts.append(OneHots(self._sizes(one_hot), name="one_hot")(self._of(one_hot)))
        if len(parts) < 2:
            return parts[0] if parts else None
        return keras.layers.Concatenate(name="deep")(parts)

    def wide(self, units: int) -> keras.KerasTensor | None:
        """float32 [batch, units]: the sum of one weight per unit for the category of each feature with `wide: true`;
        the weights start at zero. None if no feature is left for it.
        """
        names = [column.name for column in self._categorical() if column.feature.wide]
        return LinearTerms(self._sizes(names), units, name="wide")(self._of(names)) if names else None

    def _categorical(self) -> list[CategoryColumn]:
        return [column for column in self.columns.values() if isinstance(column, CategoryColumn)]

    def _of(self, names: Iterable[str]) -> list[keras.KerasTensor]:
        return [self.inputs[name] for name in names]

    def _sizes(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.num_categories[name] for name in names)
