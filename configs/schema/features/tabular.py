"""Features over numbers and categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from headrace.configs.schema.features.base import (
    Categorical,
    FeatureBase,
    SingleColumn,
    describe_missing,
    describe_vocabulary,
)
from headrace.configs.schema.section import DottedPath, KeyPath, Name, PositiveInt

AtLeastTwo = Annotated[int, Field(ge=2)]
Combiner = Literal["mean", "sum", "sqrtn"]
Scalar = str | int | float
SCALES = {
    "z_score": "scaled to mean 0, standard deviation 1",
    "min_max": "scaled to 0..1",
    "log": "sign(x) log(1 + |x|)",
}


class _ImputedCategorical(SingleColumn, Categorical):
    missing: Scalar | None = None
    """The raw value that replaces a missing one. null: missing is a category of its own, the last."""


class _Multivalued(_ImputedCategorical):
    multivalued: bool = False
    """Use all values of an example, not only the first. The feature is then a tf.RaggedTensor of shape [batch, values].
    The deep part gets the mean of their embeddings (or what `combiner` says), the wide part the sum of their weights; a
    repeated value counts each time. Missing values among others are dropped; an example without any other value counts
    as missing: it has only the missing category, or that of `missing`."""
    combiner: Combiner | None = None
    """Multivalued only: how the deep part pools the embeddings, or one-hot codes, of an example. mean (the default);
    sum; sqrtn: the sum divided by the square root of the number of values."""

    @model_validator(mode="after")
    def _combiner_needs_multivalued(self) -> _Multivalued:
        if self.combiner is not None and not self.multivalued:
            raise ValueError("`combiner` requires `multivalued: true`; set that, or remove `combiner`")
        return self

    def _values_described(self) -> str:
        """Which values are used, for the report."""
        separator = getattr(self, "separator", None)
        split = "" if separator is None else f", split at {separator!r}"
        return f" (all values{split})" if self.multivalued else ""


class _Separated(_Multivalued):
    separator: Name | None = None
    """Multivalued only, for a column of texts: the text that separates values, such as `"|"` in `Comedy|Drama` of a CSV
    file. White space around a value is removed. null: a text is one value."""

    @model_validator(mode="after")
    def _separator_needs_multivalued(self) -> _Separated:
        if self.separator is not None and not self.multivalued:
            raise ValueError("`separator` requires `multivalued: true`; set that, or remove `separator`")
        return self


class NumericFeature(SingleColumn):
    """A scaled number: float32 of shape [batch]."""

    implementation: ClassVar[str] = "headrace.trainer.columns.numeric.NumericColumn"
    takes_one_number: ClassVar[bool] = True
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "float")
    remedy: ClassVar[str] = "use a vocabulary or hashed feature"

    column: Literal["numeric"]
    """`numeric`."""
    normalize: Literal["z_score", "min_max", "log", "none"] = "z_score"
    """z_score: (x - mean) / standard deviation, over the train split; min_max: (x - min) / (max - min); log:
    sign(x) * log(1 + |x|); none: unchanged. A column with a single value becomes 0 with z_score and min_max."""
    missing: Literal["mean"] | float = "mean"
    """What replaces a missing value, before scaling: the mean of the train split, or a number."""

    def description(self) -> str:
        return f"{SCALES.get(self.normalize, 'not scaled')}; missing: {self.missing}"


class BucketizedFeature(_ImputedCategorical):
    """The bucket of a number: int64 of shape [batch].

    Bucket i contains boundaries[i-1] <= x < boundaries[i].
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.bucketized.BucketizedColumn"
    takes_one_number: ClassVar[bool] = True
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "float")
    remedy: ClassVar[str] = "use a vocabulary or hashed feature"

    column: Literal["bucketized"]
    """`bucketized`."""
    buckets: AtLeastTwo | None = None
    """Number of buckets; the boundaries are quantiles of the train split. Set either this or `boundaries`."""
    boundaries: Annotated[tuple[float, ...], Field(min_length=1)] | None = None
    """Fixed boundaries in ascending order; n of them make n + 1 buckets. Set either this or `buckets`."""
    missing: float | None = None
    """The number that replaces a missing one. null: missing is a category of its own, the last."""

    @model_validator(mode="after")
    def _buckets_or_boundaries(self) -> BucketizedFeature:
        if (self.buckets is None) == (self.boundaries is None):
            raise ValueError("set either `buckets: 10` (quantiles) or `boundaries: [41.8, 41.9]`")
        if self.boundaries is not None and list(self.boundaries) != sorted(set(self.boundaries)):
            raise ValueError(f"boundaries must be strictly ascending; found {list(self.boundaries)}")
        return self

    def description(self) -> str:
        edges = ", ".join(f"{edge:g}" for edge in self.boundaries or ())
        what = f"buckets at {edges}" if self.buckets is None else f"{self.buckets} quantile buckets"
        return what + describe_missing(self.missing)


class IdentityFeature(_Multivalued):
    """An integer that is already a category, 0 <= x < num_buckets: int64 of shape [batch]."""

    implementation: ClassVar[str] = "headrace.trainer.columns.identity.IdentityColumn"
    fitting_types: ClassVar[tuple[str, ...]] = ("int",)
    remedy: ClassVar[str] = "use a vocabulary or hashed feature for strings, a bucketized one for fractions"

    column: Literal["identity"]
    """`identity`."""
    num_buckets: PositiveInt
    """Number of categories. A value outside 0..num_buckets-1 is treated as missing."""
    missing: Annotated[int, Field(ge=0)] | None = None
    """The category of missing and out-of-range values. null: a category of its own, the last (num_buckets)."""

    @model_validator(mode="after")
    def _missing_is_a_category(self) -> IdentityFeature:
        if self.missing is not None and self.missing >= self.num_buckets:
            raise ValueError(
                f"missing: {self.missing} is not a category; num_buckets: {self.num_buckets} allows 0 to "
                f"{self.num_buckets - 1}"
            )
        return self

    def description(self) -> str:
        what = f"category ids 0 to {self.num_buckets - 1}{describe_missing(self.missing)}"
        return what + self._values_described()


class VocabularyFeature(_Separated):
    """The index of a string or integer in a vocabulary: int64 of shape [batch].

    Known values are 0..n-1, followed by the out-of-vocabulary buckets and the category for missing values.
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.vocabulary.VocabularyColumn"
    ordered: ClassVar[bool] = False
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "string")
    remedy: ClassVar[str] = "use a bucketized feature"

    column: Literal["vocabulary"]
    """`vocabulary`."""
    values: Annotated[tuple[str | int, ...], Field(min_length=1)] | None = None
    """The vocabulary itself, in order. Without this or `file`, it is learned from the train split."""
    file: Name | None = None
    """A text file with one value per line, in order."""
    top_k: PositiveInt | None = None
    """Learned only: keep the k most frequent values. null: all."""
    min_frequency: PositiveInt = 1
    """Learned only: drop values with fewer occurrences in the train split."""
    oov_buckets: PositiveInt = 1
    """Number of hash buckets for values outside the vocabulary."""

    @model_validator(mode="after")
    def _one_vocabulary(self) -> VocabularyFeature:
        if self.values is not None and self.file is not None:
            raise ValueError("set either `values` or `file`, not both")
        if (self.values is not None or self.file is not None) and (self.top_k is not None or self.min_frequency != 1):
            raise ValueError(
                "`top_k` and `min_frequency` are for a learned vocabulary; remove them, or remove `values` and `file`"
            )
        if self.values is not None and len({str(value) for value in self.values}) != len(self.values):
            raise ValueError("`values` contains a value twice")
        self._check_texts()
        return self

    def _check_texts(self) -> None:
        """Raise ValueError for a listed value that no row can have."""
        texts = [value for value in self.values or () if isinstance(value, str)]
        if "" in texts and self.missing is None:
            what = '`values` contains "", and an empty text is missing'
            raise ValueError(f"{what}; remove it, since missing values have a category of their own")
        if self.separator is None:
            return
        for text in texts:
            if self.separator in text:
                raise ValueError(f"`values` contains {text!r}, which `separator` divides; list its parts instead")
            if text != text.strip():
                what = f"`values` contains {text!r}, and white space around values is removed (`separator`)"
                raise ValueError(f"{what}; write {text.strip()!r}")

    def files(self) -> dict[KeyPath, str]:
        return {("file",): self.file} if self.file is not None else {}

    def description(self) -> str:
        known = describe_vocabulary(self.values, self.file, self.top_k, self.min_frequency)
        what = f"{known}, {self.oov_buckets} for unknown values{describe_missing(self.missing)}"
        return what + self._values_described()


class HashedFeature(_Separated):
    """The hash bucket of a string or integer (FarmHash fingerprint64 of its text): int64 of shape [batch]."""

    implementation: ClassVar[str] = "headrace.trainer.columns.hashed.HashedColumn"
    ordered: ClassVar[bool] = False
    fitting_types: ClassVar[tuple[str, ...]] = ("int", "string")
    remedy: ClassVar[str] = "use a bucketized feature"

    column: Literal["hashed"]
    """`hashed`."""
    hash_buckets: AtLeastTwo
    """Number of buckets."""

    def description(self) -> str:
        return f"{self.hash_buckets:,} hash buckets{describe_missing(self.missing)}{self._values_described()}"


class CrossedFeature(Categorical):
    """The hash bucket of a combination of values: int64 of shape [batch].

    If any key is missing, the category is the last (hash_buckets).
    """

    implementation: ClassVar[str] = "headrace.trainer.columns.crossed.CrossedColumn"
    ordered: ClassVar[bool] = False

    column: Literal["crossed"]
    """`crossed`."""
    keys: Annotated[tuple[Name, ...], Field(min_length=2)]
    """What is crossed: names of categorical features (their category is used, such as the bucket of a `bucketized`
    one), or of string and integer data columns."""
    hash_buckets: AtLeastTwo
    """Number of buckets."""
    deep: bool = False
    """Whether the deep part uses it too; crosses are mostly for the wide part."""

    def column_settings(self, name: str) -> dict[KeyPath, str]:
        return {("keys", number): key for number, key in enumerate(self.keys)}

    def data_columns(self, name: str, features: Mapping[str, FeatureBase]) -> tuple[str, ...]:
        keys = [
            features[key].data_columns(key, features) if key in features and key != name else (key,)
            for key in self.keys
        ]
        return tuple(dict.fromkeys(column for columns in keys for column in columns))

    def description(self) -> str:
        return f"{self.hash_buckets:,} hash buckets"


class CustomFeature(Categorical):
    """A feature computed by a function of yours inside the Transform graph."""

    implementation: ClassVar[str] = "headrace.trainer.columns.custom.custom_column"

    column: Literal["custom"]
    """`custom`."""
    function: DottedPath
    """Dotted path to a function that takes the raw tensors of `keys`, {name: [batch, 1] dense or sparse}, and returns a
    tensor of shape [batch]: floating point for a number, integer for a category."""
    keys: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The data columns that it reads."""
    num_categories: PositiveInt | None = None
    """Number of categories of an integer result. null: the result is a number."""

    def functions(self) -> dict[KeyPath, str]:
        return {("function",): self.function}

    def column_settings(self, name: str) -> dict[KeyPath, str]:
        return {("keys", number): key for number, key in enumerate(self.keys)}

    @property
    def is_number(self) -> bool:
        return self.num_categories is None

    def description(self) -> str:
        return self.function

    def model_parts(self, model: Any) -> str:
        return "number" if self.is_number else super().model_parts(model)
