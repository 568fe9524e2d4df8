"""`features:` which columns mean what. One class for each kind; `column:` chooses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from headrace.configs.image import ImageFeature
from headrace.configs.section import Name, Section

DottedPath = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")]
Embedding = Literal["auto", "one_hot"] | Annotated[int, Field(gt=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
AtLeastTwo = Annotated[int, Field(ge=2)]
Combiner = Literal["mean", "sum", "sqrtn"]
Scalar = str | int | float

SEVERAL_VALUES = (
    "make it a category with `multivalued: true` (`vocabulary`, `hashed` or `identity`), or compute a number of the"
    " vector with `column: custom`"
)
"""The ways out where several values meet a feature that takes one number."""


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


class _Multivalued(_FilledCategorical):
    multivalued: bool = False
    """Whether all values of an example count, and not its first alone: the feature is then a tf.RaggedTensor of shape
    [batch, values]. The deep part sees the mean (or as `combiner` says) of their embeddings, the wide part the sum of
    their weights; a value that stands there twice counts twice. Missing values among others are left out; an example
    without any other is as missing: it has the missing category, or that of `missing`, alone."""
    combiner: Combiner | None = None
    """Multivalued only: how the deep part pools the embeddings, or one-hot codes, of an example. mean (if null); sum;
    sqrtn: the sum divided by the square root of the number of values."""

    @model_validator(mode="after")
    def _combines_several(self) -> _Multivalued:
        if self.combiner is not None and not self.multivalued:
            raise ValueError("`combiner` is for features with `multivalued: true`; set that, or remove it")
        return self


class _Separated(_Multivalued):
    separator: Name | None = None
    """Multivalued only, for a column of texts: what stands between the values inside one text, such as `"|"` in
    `Comedy|Drama` of a CSV file. White space around a value is taken away. null: a text is one value."""

    @model_validator(mode="after")
    def _separates_several(self) -> _Separated:
        if self.separator is not None and not self.multivalued:
            raise ValueError("`separator` is for features with `multivalued: true`; set that, or remove it")
        return self


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


class IdentityFeature(_Multivalued):
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


class VocabularyFeature(_Separated):
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


class HashedFeature(_Separated):
    """The hash bucket of a string or integer (FarmHash fingerprint64 of its text): int64 of shape [batch]."""

    column: Literal["hashed"]
    """`hashed`."""
    hash_buckets: AtLeastTwo
    """Number of buckets."""


class TextFeature(_OneColumn, _Categorical):
    """The words of a text, in order, as places in a vocabulary: int64, a tf.RaggedTensor of shape [batch, words].

    Known words are 0..n-1, most frequent first, then come the out-of-vocabulary buckets; hashed words are 0..n-1. A
    missing text has no words.
    """

    column: Literal["text"]
    """`text`."""
    multivalued: bool = False
    """Whether the values of the data column are one text in pieces, such as the column `words` of a `text` source with
    a `window`: they are joined with a space between them. Otherwise the first counts."""
    lowercase: bool = True
    """Whether words are made lower-case (by Unicode's rules) first."""
    split: Literal["whitespace", "words", "marks"] = "whitespace"
    """What a word is. whitespace: what stands between white space (Unicode's), with its punctuation; words: the same
    once all marks are taken away; marks: what stands between white space and marks, and each mark. A mark is what is no
    letter, digit, combining mark, `_` or white space."""
    max_tokens: AtLeastOne | None = None
    """Words that are kept of a text, at most; null: all."""
    keep: Literal["first", "last"] = "first"
    """Which words are kept of a longer text."""
    padded: bool = False
    """Whether the feature is a tensor of shape [batch, max_tokens] instead, filled up with -1 at the end; for
    accelerators, which compile a graph for each shape."""
    values: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """The vocabulary itself, in order. Give this, `file`, `hash_buckets` or none: then it is learned from the train
    split."""
    file: Name | None = None
    """A text file with one word a line, in order."""
    top_k: AtLeastOne | None = None
    """Learned only: keep the k most frequent words; null: all."""
    min_frequency: AtLeastOne = 1
    """Learned only: leave out words seen fewer times in the train split."""
    oov_buckets: AtLeastOne = 1
    """Hash buckets that the words outside the vocabulary share."""
    hash_buckets: AtLeastTwo | None = None
    """Instead of a vocabulary: the number of hash buckets (FarmHash fingerprint64) that all words share."""
    combiner: Combiner = "mean"
    """How the deep part of `dnn` and `wide_and_deep` pools the embeddings of the words: mean, sum, or sqrtn (the sum
    divided by the square root of their number). Zeros where there are none."""

    @model_validator(mode="after")
    def _one_vocabulary(self) -> TextFeature:
        given = [name for name in ("values", "file", "hash_buckets") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of {', '.join(f'`{name}`' for name in given)}, not several")
        if given and (self.top_k is not None or self.min_frequency != 1):
            raise ValueError(
                f"`top_k` and `min_frequency` are for a learned vocabulary; drop them, or drop `{given[0]}`"
            )
        if self.values is not None and len(set(self.values)) != len(self.values):
            raise ValueError("a word stands in `values` twice")
        if self.padded and self.max_tokens is None:
            raise ValueError("`padded: true` needs `max_tokens`, the length that all texts are brought to")
        return self


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


def single_columns(features: Mapping[str, Feature]) -> dict[str, str]:
    """The data columns that a feature takes one number of, each with the name of the first such feature."""
    numbers = (NumericFeature, BucketizedFeature)
    named = [(feature.key or name, name) for name, feature in features.items() if isinstance(feature, numbers)]
    return dict(reversed(named))


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
    size_keys = (feature.size_keys or ()) if isinstance(feature, ImageFeature) else ()
    return (feature.key or name, *size_keys)
