"""`features:` which columns mean what. One class per kind; `column:` selects it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from headrace.configs.schema.features.function import PreprocessingFunction
from headrace.configs.schema.features.tabular import (
    BucketizedFeature,
    CrossedFeature,
    CustomFeature,
    Embedding,
    HashedFeature,
    IdentityFeature,
    NumericFeature,
    VocabularyFeature,
)
from headrace.configs.schema.features.unstructured import ImageFeature, TextFeature

__all__ = [
    "MULTIVALUED_HINT",
    "BucketizedFeature",
    "CategoricalFeature",
    "CrossedFeature",
    "CustomFeature",
    "Embedding",
    "Feature",
    "Features",
    "HashedFeature",
    "IdentityFeature",
    "ImageFeature",
    "NumericFeature",
    "PreprocessingFunction",
    "TextFeature",
    "VocabularyFeature",
    "data_columns",
    "single_columns",
]

CategoricalFeature = (
    BucketizedFeature | IdentityFeature | VocabularyFeature | HashedFeature | TextFeature | CrossedFeature
)
Feature = Annotated[
    NumericFeature
    | BucketizedFeature
    | IdentityFeature
    | VocabularyFeature
    | HashedFeature
    | TextFeature
    | CrossedFeature
    | ImageFeature
    | CustomFeature,
    Field(discriminator="column"),
]

FEATURE_COLUMNS, FUNCTION = "columns", "function"
"""The two forms of `features:`, as locations in pydantic's errors name them."""


def _form(features: object) -> str:
    """Whether these are feature columns or a function. A feature column may be named `function`, too."""
    named = isinstance(features, dict) and not isinstance(features.get(FUNCTION), dict | None)
    return FUNCTION if named or isinstance(features, PreprocessingFunction) else FEATURE_COLUMNS


Features = Annotated[
    Annotated[dict[str, Feature], Field(min_length=1), Tag(FEATURE_COLUMNS)]
    | Annotated[PreprocessingFunction, Tag(FUNCTION)],
    Field(discriminator=Discriminator(_form)),
]

MULTIVALUED_HINT = (
    "make it a category with `multivalued: true` (`vocabulary`, `hashed` or `identity`), or compute a number from the"
    " vector with `column: custom`"
)
"""What to do if multiple values meet a feature that takes one number."""


def single_columns(features: Mapping[str, Feature]) -> dict[str, str]:
    """The data columns of which a feature takes one number, each with the name of the first such feature."""
    numbers = (NumericFeature, BucketizedFeature)
    named = [(feature.key or name, name) for name, feature in features.items() if isinstance(feature, numbers)]
    return dict(reversed(named))


def data_columns(name: str, feature: Feature, features: dict[str, Feature]) -> tuple[str, ...]:
    """The data columns that a feature reads, directly or through the features that it crosses."""
    if isinstance(feature, CrossedFeature):
        keys = [
            data_columns(key, features[key], features) if key in features and key != name else (key,)
            for key in feature.keys
        ]
        return tuple(dict.fromkeys(column for columns in keys for column in columns))
    if isinstance(feature, CustomFeature):
        return feature.keys
    size_keys = (feature.size_keys or ()) if isinstance(feature, ImageFeature) else ()
    return (feature.key or name, *size_keys)
