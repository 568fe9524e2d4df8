"""One batch of raw examples in the Transform graph: each data column made dense once, each feature computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.trainer.columns.learned import Learned, learn
from headrace.trainer.columns.statistics import Statistic, analyze

if TYPE_CHECKING:
    from headrace.trainer.columns.base import CategoryColumn, Column
    from headrace.trainer.columns.text import TextColumn

RawTensor: TypeAlias = tf.Tensor | tf.SparseTensor

Wish = Statistic | Learned
"""What a column needs to know of the whole train split."""

MISSING_INTEGER = tf.int64.min
"""What a dense int64 tensor carries for a missing value: `Raw.values`, and requests of named tensors."""


class Categories(NamedTuple):
    """The categories of a feature before the missing ones get a number. Of one with several values in an example they
    are those of all the values, [values], example after example.
    """

    ids: tf.Tensor
    """int64 [batch]; anything where unknown."""
    known: tf.Tensor
    """bool [batch]: False where the raw value is missing and nothing stands in for it."""
    missing: tf.Tensor | int
    """The category of what is unknown: the one after all others."""

    def numbered(self) -> tf.Tensor:
        """int64 [batch]: the categories, the unknown ones' among them."""
        return tf.where(self.known, self.ids, tf.cast(self.missing, tf.int64))


@contextmanager
def naming(feature: str) -> Iterator[None]:
    """Put the feature's name before the message of a TrainingError raised inside."""
    try:
        yield
    except TrainingError as error:
        if str(error).startswith("features."):
            raise
        raise TrainingError(f"features.{feature}: {error}") from error


class Raw:
    """One data column of a batch.

    An absent value, NaN, the empty string and the smallest int64 all count as missing: the last three are what a dense
    tensor carries for an absent value, so that a request of named tensors and a serialized example mean the same.
    Of several values in one example the first counts.
    """

    def __init__(self, name: str, tensor: RawTensor) -> None:
        self.name = name
        self.values = _dense(tensor)
        """[batch] of int64, float32 or string."""

    @property
    def is_text(self) -> bool:
        """Whether the column holds strings."""
        return bool(self.values.dtype == tf.string)

    @property
    def is_integer(self) -> bool:
        """Whether the column holds integers."""
        return bool(self.values.dtype.is_integer)

    @cached_property
    def present(self) -> tf.Tensor:
        """Where there is a value: bool [batch]."""
        if self.is_text:
            return tf.not_equal(self.values, "")
        if self.is_integer:
            return tf.not_equal(self.values, tf.constant(MISSING_INTEGER, self.values.dtype))
        return tf.logical_not(tf.math.is_nan(self.values))

    @cached_property
    def numbers(self) -> tf.Tensor:
        """Numbers as float64 [batch], NaN where missing. Raises TrainingError for a column of strings."""
        if self.is_text:
            raise TrainingError(
                f"data column {self.name!r} holds text, and a numeric or bucketized feature needs numbers. Make the"
                f" feature `column: vocabulary` or `column: hashed`. {said_by_type(self.name, 'float')}"
            )
        if not self.is_integer:
            return tf.cast(self.values, tf.float64)
        return tf.where(self.present, tf.cast(self.values, tf.float64), tf.constant(float("nan"), tf.float64))

    @cached_property
    def text(self) -> tf.Tensor:
        """Strings [batch], integers in decimal; anything where missing. Raises TrainingError for a column of floats."""
        if self.is_text:
            return self.values
        if self.is_integer:
            return tf.strings.as_string(self.values)
        raise TrainingError(
            f"data column {self.name!r} holds fractional numbers, which make no categories. Make the feature"
            " `column: bucketized` (for a cross: give the name of a bucketized feature as its key)"
        )

    def filled_text(self, missing: object) -> tuple[tf.Tensor, tf.Tensor]:
        """`text` with `missing` in the place of missing values, and bool [batch]: where there is a value now."""
        if missing is None:
            return self.text, self.present
        return tf.where(self.present, self.text, str(missing)), tf.ones_like(self.present)


class Values(Raw):
    """One data column of a batch of which all values count: `values` and all that follows from it are [values], those
    of all examples, one after another. An example without any that is usable has a missing one in their place.
    """

    def __init__(self, name: str, tensor: RawTensor | tf.RaggedTensor, usable: Callable[[Raw], tf.Tensor]) -> None:
        """usable: which of some values count, bool [values]."""
        ragged = as_ragged(tensor)
        given = usable(Raw(name, ragged.flat_values))
        kept = tf.ragged.boolean_mask(ragged, ragged.with_flat_values(given))
        without = tf.cast(tf.equal(kept.row_lengths(), 0), tf.int64)
        missing = tf.fill([tf.reduce_sum(without)], _missing(ragged.dtype))
        kept = tf.concat([kept, tf.RaggedTensor.from_row_lengths(missing, without)], axis=1)
        self.lengths: tf.Tensor = kept.row_lengths()
        """Values of each example, 1 or more: int64 [batch]."""
        super().__init__(name, kept.flat_values)


class Batch:
    """What a column computes from: `tensors` as Transform gives them, and what the columns share."""

    def __init__(
        self, tensors: Mapping[str, RawTensor], columns: Mapping[str, Column], *, by_span: bool = False
    ) -> None:
        """by_span: whether TFT may keep what it computes of each span of the train split."""
        self.tensors = tensors
        self.columns = columns
        self._by_span = by_span
        self._raw: dict[str, Raw] = {}
        self._values: dict[str, Values] = {}
        self._words: dict[str, tf.RaggedTensor] = {}
        self._categories: dict[str, Categories] = {}

    def raw(self, name: str) -> Raw:
        """The data column of that name."""
        if name not in self._raw:
            self._raw[name] = Raw(name, self.tensor(name))
        return self._raw[name]

    def values(self, column: CategoryColumn) -> Values:
        """All values of the data column that a feature reads."""
        if column.name not in self._values:
            separator = getattr(column.feature, "separator", None)
            self._values[column.name] = Values(column.key, pieces(self.tensor(column.key), separator), column.usable)
        return self._values[column.name]

    def words(self, column: TextColumn) -> tf.RaggedTensor:
        """The words of a text, as a feature keeps them: string [batch, words]."""
        if column.name not in self._words:
            self._words[column.name] = column.words(self.tensor(column.key))
        return self._words[column.name]

    def tensor(self, name: str) -> RawTensor:
        """The data column as Transform gives it. Raises TrainingError if the examples have none of that name."""
        if name not in self.tensors:
            raise TrainingError(f"no data column {name!r} in the examples; there are {', '.join(sorted(self.tensors))}")
        return self.tensors[name]

    def categories(self, column: CategoryColumn) -> Categories:
        """The categories of a feature."""
        if column.name not in self._categories:
            self._categories[column.name] = column.categories(self)
        return self._categories[column.name]

    def answer(self, wish: Wish) -> tf.Tensor:
        """What a column wished for in its `wishes`."""
        return self._answers[wish]

    @cached_property
    def _answers(self) -> dict[Wish, tf.Tensor]:
        """All wishes answered together, because each analyzer of its own costs Transform time."""
        numbers: dict[Statistic, tf.Tensor] = {}
        texts: dict[Learned, tf.Tensor] = {}
        for column in self.columns.values():
            with naming(column.name):
                for wish in column.wishes():
                    if isinstance(wish, Learned):
                        texts[wish] = column.texts(self)
                    else:
                        numbers[wish] = self.raw(wish.key).numbers
        return {**analyze(numbers, by_span=self._by_span), **learn(texts, by_span=self._by_span)}


def as_ragged(tensor: RawTensor | tf.RaggedTensor) -> tf.RaggedTensor:
    """All values of each example, [batch, values], the missing ones among them."""
    if isinstance(tensor, tf.RaggedTensor):
        return tensor
    if isinstance(tensor, tf.SparseTensor):
        return tf.RaggedTensor.from_sparse(tensor)
    return tf.RaggedTensor.from_tensor(tensor if tensor.shape.rank == 2 else tensor[:, tf.newaxis])


def said_by_type(column: str, kind: str) -> str:
    """How to find what in a column is not of the type that it should have."""
    return f"If it should be {kind}, set `data.types.{column}: {kind}`: the run then names the first value that is not"


def pieces(tensor: RawTensor, separator: str | None) -> RawTensor | tf.RaggedTensor:
    """Texts cut at the separator, white space around the pieces taken away; other columns as they are."""
    if separator is None or tensor.dtype != tf.string:
        return tensor
    ragged = as_ragged(tensor)
    cut = tf.ragged.map_flat_values(tf.strings.strip, tf.strings.split(ragged.flat_values, separator))
    return ragged.with_values(cut).merge_dims(1, 2)


def _missing(dtype: tf.DType) -> tf.Tensor:
    return tf.constant({tf.string: "", tf.int64: MISSING_INTEGER}.get(dtype, float("nan")), dtype)


def _dense(tensor: RawTensor) -> tf.Tensor:
    if isinstance(tensor, tf.SparseTensor):
        missing = _missing(tensor.dtype)
        shape = tf.maximum(
            tensor.dense_shape, tf.constant([0, 1], tf.int64)
        )  # no example has a value: still one column
        tensor = tf.sparse.to_dense(tf.SparseTensor(tensor.indices, tensor.values, shape), default_value=missing)
    return tensor if tensor.shape.rank == 1 else tensor[:, 0]
