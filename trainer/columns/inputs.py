"""All features of a model as Keras inputs, and the two forms in which a model takes them."""

from __future__ import annotations

from collections.abc import Mapping

import keras

from configs.features import Embedding
from trainer.columns.base import CategoryColumn, Column, VocabularySize


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
        `model.embedding`.
        """
        self.columns = columns
        self.embedding: Embedding = embedding
        self.inputs = {name: column.keras_input() for name, column in columns.items()}
        sizes = {name: column.num_categories(vocabulary_size) for name, column in columns.items()}
        self.num_categories: dict[str, int] = {name: size for name, size in sizes.items() if size is not None}

    def deep(self) -> keras.KerasTensor | None:
        """float32 [batch, width]: the numbers, then the embeddings and one-hot codes of the categories with
        `deep: true`, in the order of the config. None if no feature is left for it.
        """
        parts = [self._number(name) for name in self.columns if name not in self.num_categories]
        parts += [self._embedded(column) for column in self._categorical() if column.feature.deep]
        return _concatenated(parts)

    def wide(self, units: int) -> keras.KerasTensor | None:
        """float32 [batch, units]: the sum of one weight per unit for the category of each feature with `wide: true`;
        the weights start at zero. None if no feature is left for it.
        """
        terms = [self._weights(column, units) for column in self._categorical() if column.feature.wide]
        return None if not terms else terms[0] if len(terms) == 1 else keras.layers.Add(name="wide")(terms)

    def _categorical(self) -> list[CategoryColumn]:
        return [column for column in self.columns.values() if isinstance(column, CategoryColumn)]

    def _number(self, name: str) -> keras.KerasTensor:
        return keras.layers.Reshape((1,), name=f"{name}_number")(self.inputs[name])

    def _embedded(self, column: CategoryColumn) -> keras.KerasTensor:
        size, ids = self.num_categories[column.name], self.inputs[column.name]
        width = column.embedding_width(size, self.embedding)
        if width is None:
            return keras.layers.CategoryEncoding(size, "one_hot", name=f"{column.name}_one_hot")(ids)
        return keras.layers.Embedding(size, width, name=f"{column.name}_embedding")(ids)

    def _weights(self, column: CategoryColumn, units: int) -> keras.KerasTensor:
        size = self.num_categories[column.name]
        return keras.layers.Embedding(size, units, "zeros", name=f"{column.name}_wide")(self.inputs[column.name])


def _concatenated(parts: list[keras.KerasTensor]) -> keras.KerasTensor | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    return keras.layers.Concatenate(name="deep")(parts)
