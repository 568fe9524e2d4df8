"""Feature columns, one file per kind: the computation in the Transform graph and the input of the Keras model.

The class of a kind's settings names its column, a `Column` or a function that returns one: (name, settings) -> Column.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import Feature
from headrace.trainer.columns.base import PADDING, Batch, CategoryColumn, Column, NumberColumn, VocabularySize
from headrace.trainer.columns.image import ImageColumn
from headrace.trainer.columns.model_inputs import ModelInputs
from headrace.trainer.columns.raw import MISSING_INTEGER, RawColumn
from headrace.trainer.columns.text import TextColumn
from headrace.trainer.columns.vocabulary import vocabulary_size

__all__ = [
    "MISSING_INTEGER",
    "PADDING",
    "Batch",
    "CategoryColumn",
    "Column",
    "ImageColumn",
    "ModelInputs",
    "NumberColumn",
    "RawColumn",
    "TextColumn",
    "VocabularySize",
    "build",
    "vocabulary_size",
]


def build(features: Mapping[str, Feature]) -> dict[str, Column]:
    """Return the columns of the config's features by name, in the config's order."""
    return {name: _column(name, feature) for name, feature in features.items()}


def _column(name: str, feature: Feature) -> Column:
    column = feature.load_implementation()(name, feature)
    if not isinstance(column, Column):
        raise TrainingError(f"features.{name}: {feature.implementation} makes {column!r:.60}, which is not a Column")
    return column
