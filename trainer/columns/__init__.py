"""Feature columns, one file per kind: the computation in the Transform graph and the input of the Keras model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.configs.schema.features import (
    BucketizedFeature,
    CrossedFeature,
    CustomFeature,
    Feature,
    HashedFeature,
    IdentityFeature,
    ImageFeature,
    NumericFeature,
    TextFeature,
    VocabularyFeature,
)
from headrace.trainer.columns.base import PADDING, Batch, CategoryColumn, Column, NumberColumn, VocabularySize
from headrace.trainer.columns.bucketized import BucketizedColumn
from headrace.trainer.columns.crossed import CrossedColumn
from headrace.trainer.columns.custom import custom_column
from headrace.trainer.columns.hashed import HashedColumn
from headrace.trainer.columns.identity import IdentityColumn
from headrace.trainer.columns.image import ImageColumn
from headrace.trainer.columns.model_inputs import ModelInputs
from headrace.trainer.columns.numeric import NumericColumn
from headrace.trainer.columns.raw import MISSING_INTEGER, RawColumn
from headrace.trainer.columns.text import TextColumn
from headrace.trainer.columns.vocabulary import VocabularyColumn, vocabulary_size

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

KINDS: dict[type, Callable[[str, Any], Column]] = {
    BucketizedFeature: BucketizedColumn,
    CrossedFeature: CrossedColumn,
    CustomFeature: custom_column,
    HashedFeature: HashedColumn,
    IdentityFeature: IdentityColumn,
    ImageFeature: ImageColumn,
    NumericFeature: NumericColumn,
    TextFeature: TextColumn,
    VocabularyFeature: VocabularyColumn,
}
"""The class for each `column:` kind."""


def build(features: Mapping[str, Feature]) -> dict[str, Column]:
    """Return the columns of the config's features by name, in the config's order."""
    return {name: KINDS[type(feature)](name, feature) for name, feature in features.items()}
