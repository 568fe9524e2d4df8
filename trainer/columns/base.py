"""Base classes of feature columns, and the batch of raw examples that their Transform half computes from."""

from __future__ import annotations

import abc
import contextlib
import math
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, TypeVar

import keras
import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.features import Categorical, CustomFeature, Embedding, FeatureBase
from headrace.trainer.columns.analyzers.numbers import Statistic, analyze
from headrace.trainer.columns.analyzers.texts import VocabularyAnalyzer, learn_vocabularies
from headrace.trainer.columns.raw import MultivaluedRawColumn, RawColumn, RawTensor, split_values

FeatureT = TypeVar("FeatureT", bound=FeatureBase)
CategoricalT = TypeVar("CategoricalT", bound=Categorical)

Analyzer = Statistic | VocabularyAnalyzer
"""What a column needs to know about the whole train split."""

VocabularySize = Callable[[str], int]
"""Number of entries of the learned vocabulary of that name: `TFTransformOutput.vocabulary_size_by_name`."""

COLUMNS = f"{__package__}."
"""The prefix of the modules of this project's own columns."""

PADDING = -1
"""Not a category: pads the rows of a multivalued feature that is a dense tensor."""


class Categories(NamedTuple):
    """The categories of a feature, before missing values get a number.

    For a multivalued feature the shapes are [values], example after example, in place of [batch].
    """

    ids: tf.Tensor
    """int64 [batch]; undefined where unknown."""
    known: tf.Tensor
    """bool [batch]: False where the raw value is missing and has no substitute."""
    missing: tf.Tensor | int
    """The category for unknown values: the one after all others."""

    def numbered(self) -> tf.Tensor:
        """int64 [batch]: the categories, including the one for unknown values."""
        return tf.where(self.known, self.ids, tf.cast(self.missing, tf.int64))


@contextlib.contextmanager
def prefix_errors(feature: str) -> Iterator[None]:
    """Prefix the message of a TrainingError raised inside with the feature's name."""
    try:
        yield
    except TrainingError as error:
        if str(error).startswith("features."):
            raise
        raise TrainingError(f"features.{feature}: {error}") from error


@contextlib.contextmanager
def ignore_input_names_warning() -> Iterator[None]:
    """Silence Keras' warning about models whose inputs are not named after the features, which is on purpose."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="When providing `inputs` as a dict")
        yield


class Column(abc.ABC, Generic[FeatureT]):
    """One feature: `transform` is its half in the Transform graph, the other methods are its half in the model."""

    dtype: str
    """dtype of the transformed tensor: float32 (a number) or int64 (a category)."""
    multivalued = False
    """Whether an example has any number of values. The transformed tensor is then ragged, [batch, values], or if
    `width` is set [batch, width], padded with PADDING; otherwise it is [batch].
    """
    width: int | None = None
    """Values per example of a multivalued feature whose tensor is dense."""

    def __init__(self, name: str, feature: FeatureT) -> None:
        self.name = name
        self.feature = feature

    @property
    def key(self) -> str:
        """The data column, for kinds that read a single one."""
        return getattr(self.feature, "key", None) or self.name

    @abc.abstractmethod
    def transform(self, batch: Batch) -> tf.Tensor | tf.RaggedTensor:
        """Compute the feature: [batch] of `dtype`, or all values of a multivalued feature."""

    def vocabulary_texts(self, batch: Batch) -> tf.Tensor:
        """Strings from which this column's vocabulary is learned; "" where missing."""
        raise NotImplementedError

    def analyzers(self) -> list[Analyzer]:
        """What the column needs to know about the whole train split; `batch.result` returns it."""
        return []

    def analyzed_numbers(self, batch: Batch, key: str) -> tf.Tensor:
        """float64 [batch], NaN where missing: what the analyzer of `key` is computed from; by default a data column."""
        return batch.raw(key).numbers

    @abc.abstractmethod
    def num_categories(self, vocabulary_size: VocabularySize) -> int | None:
        """Number of categories, including the one for missing values; None for a number."""

    @property
    def input_name(self) -> str:
        """Name of the model's input, distinct from the layers of any builder.

        Keras needs unique names without slashes, and a feature may be called `deep` or `miles/h`.
        """
        return f"{self.name.replace('/', '_slash_')}_input"

    def keras_input(self) -> keras.KerasTensor:
        """The model's input, of the transformed tensor's shape and dtype."""
        if not self.multivalued:
            return keras.Input(shape=(), name=self.input_name, dtype=self.dtype)
        return keras.Input(shape=(self.width,), name=self.input_name, dtype=self.dtype, ragged=self.width is None)


def is_foreign(column: Column) -> bool:
    """Whether a column calls code of the user's in Transform: `column: custom`, or a kind of the user's."""
    return isinstance(column.feature, CustomFeature) or not type(column).__module__.startswith(COLUMNS)


class NumberColumn(Column[FeatureT]):
    """A number. The deep part of a model takes it unchanged, the wide part does not see it."""

    dtype = "float32"

    def num_categories(self, vocabulary_size: VocabularySize) -> None:
        """None: a number has no categories."""
        return


class CategoryColumn(Column[CategoricalT]):
    """A category, or with `multivalued` any number of them."""

    dtype = "int64"

    def __init__(self, name: str, feature: CategoricalT) -> None:
        super().__init__(name, feature)
        self.multivalued = bool(getattr(feature, "multivalued", False))

    @abc.abstractmethod
    def categories(self, batch: Batch) -> Categories:
        """The category of each example (or value), before missing values get theirs."""

    def raw(self, batch: Batch) -> RawColumn:
        """The data column: the first value of each example, or all of them if multivalued."""
        return batch.values(self) if self.multivalued else batch.raw(self.key)

    def is_valid(self, raw: RawColumn) -> tf.Tensor:
        """bool, as `raw.values`: which values of a multivalued feature to use if an example has others as well."""
        return raw.present

    def transform(self, batch: Batch) -> tf.Tensor | tf.RaggedTensor:
        """The category of each example, or all of its categories."""
        numbered = batch.categories(self).numbered()
        if not self.multivalued:
            return numbered
        return tf.RaggedTensor.from_row_lengths(numbered, batch.values(self).lengths)

    def single_categories(self, batch: Batch) -> Categories:
        """The one category of each example. Raises TrainingError for a multivalued feature."""
        if self.multivalued:
            raise TrainingError(
                f"features.{self.name} may have several values per example, and a cross takes one value of each key."
                " Cross a feature of the same column without `multivalued`, which takes the first value"
            )
        return batch.categories(self)

    @abc.abstractmethod
    def num_categories(self, vocabulary_size: VocabularySize) -> int:
        """Number of categories, including the one for missing values."""

    def embedding_width(self, num_categories: int, default: Embedding) -> int | None:
        """Width of the embedding; None for one-hot codes. `default` is `model.embedding`."""
        embedding = self.feature.embedding if self.feature.embedding is not None else default
        if embedding == "one_hot":
            return None
        return math.ceil(num_categories**0.25) if embedding == "auto" else int(embedding)


class TokenizedColumn(Protocol):
    """A column that reads the words of texts: `headrace.trainer.columns.text.TextColumn`."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    def words(self, tensor: RawTensor) -> tf.RaggedTensor: ...


class Batch:
    """One batch of raw examples: each data column is made dense once, each feature is computed once."""

    def __init__(
        self,
        tensors: Mapping[str, RawTensor],
        columns: Mapping[str, Column],
        *,
        by_span: bool = False,
        results: Mapping[Analyzer, tf.Tensor] | None = None,
    ) -> None:
        """
        Args:
            tensors: Raw data columns, as Transform passes them.
            columns: The features by name.
            by_span: Whether TFT may cache what it computes for each span of the train split.
            results: The results of the analyzers of all columns; None: TFT computes them.
        """
        self.tensors = tensors
        self.columns = columns
        self._by_span = by_span
        self._given = results
        self._raw: dict[str, RawColumn] = {}
        self._values: dict[str, MultivaluedRawColumn] = {}
        self._words: dict[str, tf.RaggedTensor] = {}
        self._categories: dict[str, Categories] = {}
        self._together: dict[Hashable, dict[str, tf.Tensor]] = {}

    def raw(self, name: str) -> RawColumn:
        """Return the first value of each example of a data column."""
        if name not in self._raw:
            self._raw[name] = RawColumn(name, self.tensor(name))
        return self._raw[name]

    def values(self, column: CategoryColumn) -> MultivaluedRawColumn:
        """Return all values of the data column that a feature reads."""
        if column.name not in self._values:
            separator = getattr(column.feature, "separator", None)
            values = split_values(self.tensor(column.key), separator)
            self._values[column.name] = MultivaluedRawColumn(column.key, values, column.is_valid)
        return self._values[column.name]

    def words(self, column: TokenizedColumn) -> tf.RaggedTensor:
        """Return the words of a text feature: string [batch, words]."""
        if column.name not in self._words:
            self._words[column.name] = column.words(self.tensor(column.key))
        return self._words[column.name]

    def tensor(self, name: str) -> RawTensor:
        """Return the data column as Transform passes it. Raises TrainingError if the examples do not have it."""
        if name not in self.tensors:
            raise TrainingError(
                f"no data column {name!r} in the examples, which have {', '.join(sorted(self.tensors))}"
            )
        return self.tensors[name]

    def has_numbers(self, name: str) -> bool:
        """Whether there is a data column of this name, and it holds no text."""
        return name in self.tensors and self.tensors[name].dtype != tf.string

    def categories(self, column: CategoryColumn) -> Categories:
        if column.name not in self._categories:
            self._categories[column.name] = column.categories(self)
        return self._categories[column.name]

    def together(self, key: Hashable, compute: Callable[[], dict[str, tf.Tensor]]) -> dict[str, tf.Tensor]:
        """Return the features of all columns with this key, by name; the first of them computes those of all."""
        if key not in self._together:
            self._together[key] = compute()
        return self._together[key]

    def result(self, analyzer: Analyzer) -> tf.Tensor:
        """Return the result of one of the `analyzers` of a column."""
        return self._results[analyzer]

    @cached_property
    def _results(self) -> dict[Analyzer, tf.Tensor]:
        """The results of all columns' analyzers, computed together because TFT spends its time per analyzer."""
        if self._given is not None:
            return dict(self._given)
        numbers: dict[Statistic, tf.Tensor] = {}
        texts: dict[VocabularyAnalyzer, tf.Tensor] = {}
        for column in self.columns.values():
            with prefix_errors(column.name):
                for analyzer in column.analyzers():
                    if isinstance(analyzer, VocabularyAnalyzer):
                        texts[analyzer] = column.vocabulary_texts(self)
                    else:
                        numbers[analyzer] = column.analyzed_numbers(self, analyzer.key)
        return {**analyze(numbers, by_span=self._by_span), **learn_vocabularies(texts, by_span=self._by_span)}
