"""`features:` which columns mean what. One class per kind; `column:` selects it.

To add a kind, write its class and its column, which the class names, and add a line to the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from headrace.common import entry_points
from headrace.configs.schema.features.base import Categorical, Embedding, FeatureBase, SingleColumn
from headrace.configs.schema.features.calendar import FALSE_WORDS, TRUE_WORDS, BooleanFeature, DatetimeFeature
from headrace.configs.schema.features.function import PreprocessingFunction
from headrace.configs.schema.features.tabular import (
    BucketizedFeature,
    CrossedFeature,
    CustomFeature,
    HashedFeature,
    IdentityFeature,
    NumericFeature,
    VocabularyFeature,
)
from headrace.configs.schema.features.unstructured import ImageFeature, TextEmbeddingFeature, TextFeature
from headrace.configs.schema.features.vector import VectorFeature
from headrace.configs.schema.kinds import OpenUnion

__all__ = [
    "FALSE_WORDS",
    "FEATURES",
    "MULTIVALUED_HINT",
    "TRUE_WORDS",
    "BooleanFeature",
    "BucketizedFeature",
    "Categorical",
    "CrossedFeature",
    "CustomFeature",
    "DatetimeFeature",
    "Embedding",
    "Feature",
    "FeatureBase",
    "Features",
    "HashedFeature",
    "IdentityFeature",
    "ImageFeature",
    "NumericFeature",
    "PreprocessingFunction",
    "SingleColumn",
    "TextEmbeddingFeature",
    "TextFeature",
    "VectorFeature",
    "VocabularyFeature",
    "single_columns",
]

FEATURES = OpenUnion(
    entry_points.FEATURES,
    base=FeatureBase,
    tag="column",
    built_in=(
        "headrace.configs.schema.features.tabular.NumericFeature",
        "headrace.configs.schema.features.vector.VectorFeature",
        "headrace.configs.schema.features.tabular.BucketizedFeature",
        "headrace.configs.schema.features.tabular.IdentityFeature",
        "headrace.configs.schema.features.tabular.VocabularyFeature",
        "headrace.configs.schema.features.tabular.HashedFeature",
        "headrace.configs.schema.features.calendar.BooleanFeature",
        "headrace.configs.schema.features.calendar.DatetimeFeature",
        "headrace.configs.schema.features.unstructured.TextFeature",
        "headrace.configs.schema.features.unstructured.TextEmbeddingFeature",
        "headrace.configs.schema.features.tabular.CrossedFeature",
        "headrace.configs.schema.features.unstructured.ImageFeature",
        "headrace.configs.schema.features.tabular.CustomFeature",
    ),
)
"""The registry of kinds, in the order of docs/config.md."""
Feature = Annotated[FeatureBase, FEATURES]

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
    "if every list has the same length, use `column: vector` with that `size`; otherwise make it a category with"
    " `multivalued: true` (`vocabulary`, `hashed` or `identity`), or compute a number from it with `column: custom`"
)
"""What to do if multiple values meet a feature that takes one number."""


def single_columns(features: Mapping[str, Feature]) -> dict[str, str]:
    """The data columns of which a feature takes one number, each with the name of the first such feature."""
    takers = [(name, feature) for name, feature in features.items() if feature.takes_one_number]
    named = [(column, name) for name, feature in takers for column in feature.column_settings(name).values()]
    return dict(reversed(named))
