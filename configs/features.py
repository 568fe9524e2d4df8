"""`features:` which columns mean what. One class for each kind; `column:` chooses it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from configs.section import Name, Section

DottedPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
Embedding = Literal["auto", "one_hot"] | Annotated[int, Field(gt=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
Scalar = str | int | float


class _OneColumn(Section):
    key: Name | None = None
    """The data column it reads; null: the one with the feature's own name."""


class _Categorical(Section):
    embedding: Embedding | None = None
    """Width of its embedding in the deep part: a number, `auto` (number of categories to the power 0.25, rounded up),
    or `one_hot`; null: as `model.embedding` says."""
    deep: bool = True
    """Whether the deep part sees it."""
    wide: bool = True
    """Whether the wide (linear) part of `wide_and_deep` has a weight for each of its categories."""


class _FilledCategorical(_OneColumn, _Categorical):
    missing: Scalar | None = None
    """The raw value that stands in for a missing one; null: missing is a category of its own, the last."""


class NumericFeature(_OneColumn):
    """A number, scaled: float32 of shape [batch]."""

    column: Literal["numeric"]
    """`numeric`."""
    normalize: Literal["z_score", "min_max", "log", "none"] = "z_score"
    """z_score: (x - mean) / standard deviation, over the train split; min_max: (x - min) / (max - min); log:
    sign(x) * log(1 + |x|); none: as it is. A column with a single value becomes 0 under z_score and min_max."""
    missing: Literal["mean"] | float = "mean"
    """What stands in for a missing value, before scaling: the mean of the present ones over the train split, or a
    number."""


class BucketizedFeature(_FilledCategorical):
    """The bucket that a number falls in: int64 of shape [batch].

    Bucket i holds boundaries[i-1] <= x < boundaries[i].
    """

    column: Literal["bucketized"]
    """`bucketized`."""
    buckets: AtLeastTwo | None = None
    """Number of buckets; the boundaries are quantiles over the train split. Give this or `boundaries`."""
    boundaries: Annotated[tuple[float, ...], Field(min_length=1)] | None = None
    """Fixed boundaries, rising; n of them make n + 1 buckets. Give this or `buckets`."""
    missing: float | None = None
    """The number that stands in for a missing one; null: missing is a category of its own, the last."""

    @model_validator(mode="after")
    def _one_way_to_bucket(self) -> BucketizedFeature:
        if (self.buckets is None) == (self.boundaries is None):
            raise ValueError(
                "give either `buckets: 10` (quantiles) or `boundaries: [41.8, 41.9]`, not both, not neither"
            )
        if self.boundaries is not None and list(self.boundaries) != sorted(set(self.boundaries)):
            raise ValueError(f"boundaries must rise strictly; got {list(self.boundaries)}")
        return self


class IdentityFeature(_FilledCategorical):
    """An integer that is a category already, 0 <= x < num_buckets: int64 of shape [batch]."""

    column: Literal["identity"]
    """`identity`."""
    num_buckets: AtLeastOne
    """Number of categories. A value outside 0..num_buckets-1 is treated as missing."""
    missing: Annotated[int, Field(ge=0)] | None = None
    """The category of a missing or out-of-range value; null: one of its own, the last (num_buckets)."""

    @model_validator(mode="after")
    def _missing_is_a_category(self) -> IdentityFeature:
        if self.missing is not None and self.missing >= self.num_buckets:
            raise ValueError(
                f"missing: {self.missing} is no category; num_buckets: {self.num_buckets} allows 0 to "
                f"{self.num_buckets - 1}"
            )
        return self


class VocabularyFeature(_FilledCategorical):
    """The place of a string or integer in a vocabulary: int64 of shape [batch].

    Known values are 0..n-1, then come the out-of-vocabulary buckets, then the missing value's category.
    """

    column: Literal["vocabulary"]
    """`vocabulary`."""
    values: Annotated[tuple[str | int, ...], Field(min_length=1)] | None = None
    """The vocabulary itself, in order. Give this, `file`, or neither: then it is learned from the train split."""
    file: Name | None = None
    """A text file with one value a line, in order."""
    top_k: AtLeastOne | None = None
    """Learned only: keep the k most frequent values; null: all."""
    min_frequency: AtLeastOne = 1
    """Learned only: leave out values seen fewer times in the train split."""
    oov_buckets: AtLeastOne = 1
    """Hash buckets that the values outside the vocabulary share."""

    @model_validator(mode="after")
    def _one_vocabulary(self) -> VocabularyFeature:
        if self.values is not None and self.file is not None:
            raise ValueError("give the vocabulary as `values` or as `file`, not both")
        if (self.values is not None or self.file is not None) and (self.top_k is not None or self.min_frequency != 1):
            raise ValueError(
                "`top_k` and `min_frequency` are for a learned vocabulary; drop them, or drop `values` and `file`"
            )
        if self.values is not None and len({str(value) for value in self.values}) != len(self.values):
            raise ValueError("a value stands in `values` twice")
        return self


class HashedFeature(_FilledCategorical):
    """The hash bucket of a string or integer (FarmHash fingerprint64 of its text): int64 of shape [batch]."""

    column: Literal["hashed"]
    """`hashed`."""
    hash_buckets: AtLeastTwo
    """Number of buckets."""


class CrossedFeature(_Categorical):
    """The hash bucket of several values together: int64 of shape [batch].

    If any key is missing, the category is the last (hash_buckets).
    """

    column: Literal["crossed"]
    """`crossed`."""
    keys: Annotated[tuple[Name, ...], Field(min_length=2)]
    """What is crossed: names of categorical features (their category is used; a `bucketized` one gives its bucket) or
    of string and integer data columns."""
    hash_buckets: AtLeastTwo
    """Number of buckets."""
    deep: bool = False
    """Whether the deep part sees it too; crosses are mostly for the wide part."""


class CustomFeature(_Categorical):
    """A feature computed by the user's own function inside the Transform graph."""

    column: Literal["custom"]
    """`custom`."""
    function: DottedPath
    """Dotted path to a function that takes the raw tensors of `keys`, {name: [batch, 1] dense or sparse}, and returns a
    tensor of shape [batch]: floating point for a number, integer for a category."""
    keys: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The data columns that it reads."""
    num_categories: AtLeastOne | None = None
    """How many categories an integer result has; null: the result is a number."""


CategoricalFeature = BucketizedFeature | IdentityFeature | VocabularyFeature | HashedFeature | CrossedFeature
Feature = Annotated[
    NumericFeature
    | BucketizedFeature
    | IdentityFeature
    | VocabularyFeature
    | HashedFeature
    | CrossedFeature
    | CustomFeature,
    Field(discriminator="column"),
]


def data_columns(name: str, feature: Feature, features: dict[str, Feature]) -> tuple[str, ...]:
    """The data columns that a feature reads, itself or through the features that it crosses."""
    if isinstance(feature, CrossedFeature):
        keys = [
            data_columns(key, features[key], features) if key in features and key != name else (key,)
            for key in feature.keys
        ]
        return tuple(dict.fromkeys(column for columns in keys for column in columns))
    if isinstance(feature, CustomFeature):
        return feature.keys
    return (feature.key or name,)
