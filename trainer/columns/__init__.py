"""Feature columns: one file for each kind, both halves in it: what Transform computes, how the Keras model takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.configs.features import (
    BucketizedFeature,
    CrossedFeature,
    CustomFeature,
    Feature,
    HashedFeature,
    IdentityFeature,
    NumericFeature,
    TextFeature,
    VocabularyFeature,
)
from headrace.configs.image import ImageFeature
from headrace.trainer.columns.base import PADDING, CategoryColumn, Column, NumberColumn
from headrace.trainer.columns.batch import MISSING_INTEGER, Batch, Raw
from headrace.trainer.columns.bucketized import BucketizedColumn
from headrace.trainer.columns.crossed import CrossedColumn
from headrace.trainer.columns.custom import custom_column
from headrace.trainer.columns.hashed import HashedColumn
from headrace.trainer.columns.identity import IdentityColumn
from headrace.trainer.columns.image import ImageColumn
from headrace.trainer.columns.inputs import ModelInputs
from headrace.trainer.columns.lookup import VocabularySize, vocabulary_size
from headrace.trainer.columns.numeric import NumericColumn
from headrace.trainer.columns.text import TextColumn
from headrace.trainer.columns.vocabulary import VocabularyColumn

__all__ = [
    "MISSING_INTEGER",
    "PADDING",
    "Batch",
    "CategoryColumn",
    "Column",
    "ImageColumn",
    "ModelInputs",
    "NumberColumn",
    "Raw",
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
"""Which class makes which `column:` kind."""


def build(features: Mapping[str, Feature]) -> dict[str, Column]:
    """The columns of the config's features, by name, in the config's order."""
    return {name: KINDS[type(feature)](name, feature) for name, feature in features.items()}
