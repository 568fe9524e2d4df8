"""Raw data columns in the Transform graph: dense values, missing values, and any number of values per example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TypeAlias

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.data import bits_column

RawTensor: TypeAlias = tf.Tensor | tf.SparseTensor

MISSING_INTEGER = tf.int64.min
"""Stands for a missing value in a dense int64 tensor: in `RawColumn.values` and in requests of named tensors."""


class RawColumn:
    """One data column of a batch, with one value per example: the first, where an example has several.

    Absent values, NaN, the empty string and the smallest int64 count as missing. The last three stand for an absent
    value in a dense tensor, so a request of named tensors and a serialized example mean the same.
    """

    def __init__(self, name: str, tensor: RawTensor) -> None:
        self.name = name
        self.values = _dense(tensor)
        """[batch] of int64, float32, float64 or string."""

    @property
    def is_text(self) -> bool:
        return bool(self.values.dtype == tf.string)

    @property
    def is_integer(self) -> bool:
        return bool(self.values.dtype.is_integer)

    @cached_property
    def present(self) -> tf.Tensor:
        """Bool [batch]: whether the example has a value."""
        if self.is_text:
            return tf.not_equal(self.values, "")
        if self.is_integer:
            return tf.not_equal(self.values, tf.constant(MISSING_INTEGER, self.values.dtype))
        return tf.logical_not(tf.math.is_nan(self.values))

    @cached_property
    def numbers(self) -> tf.Tensor:
        """float64 [batch], NaN where missing. Raises TrainingError for a column of strings."""
        if self.is_text:
            raise TrainingError(
                f"data column {self.name!r} holds text, and the feature needs numbers. Make it"
                f" `column: vocabulary` or `column: hashed`. {suggest_type(self.name, 'float')}"
            )
        if not self.is_integer:
            return tf.cast(self.values, tf.float64)
        return tf.where(self.present, tf.cast(self.values, tf.float64), tf.constant(float("nan"), tf.float64))

    @cached_property
    def text(self) -> tf.Tensor:
        """String [batch], integers in decimal; undefined where missing. Raises TrainingError for a column of floats."""
        if self.is_text:
            return self.values
        if self.is_integer:
            return tf.strings.as_string(self.values)
        raise TrainingError(
            f"data column {self.name!r} holds fractional numbers, which cannot be categories. Make the feature"
            " `column: bucketized` (for a cross: use the name of a bucketized feature as its key)"
        )

    def filled_text(self, missing: object) -> tuple[tf.Tensor, tf.Tensor]:
        """Return `text` with `missing` substituted for missing values, and bool [batch]: whether there is a value."""
        if missing is None:
            return self.text, self.present
        return tf.where(self.present, self.text, str(missing)), tf.ones_like(self.present)


class MultivaluedRawColumn(RawColumn):
    """One data column of a batch with all values of each example.

    `values` and everything derived from it have shape [values], example after example. An example without a valid value
    has a single missing one.
    """

    def __init__(
        self, name: str, tensor: RawTensor | tf.RaggedTensor, is_valid: Callable[[RawColumn], tf.Tensor]
    ) -> None:
        """
        Args:
            name: The data column.
            tensor: Its values.
            is_valid: Returns bool [values]: which values of a column to use.
        """
        ragged = as_ragged(tensor)
        valid = is_valid(RawColumn(name, ragged.flat_values))
        used = tf.ragged.boolean_mask(ragged, ragged.with_flat_values(valid))
        # An example left without values gets one missing value, so that every example has at least one row.
        is_empty = tf.cast(tf.equal(used.row_lengths(), 0), tf.int64)
        missing = tf.fill([tf.reduce_sum(is_empty)], _missing_value(ragged.dtype))
        used = tf.concat([used, tf.RaggedTensor.from_row_lengths(missing, is_empty)], axis=1)
        self.lengths: tf.Tensor = used.row_lengths()
        """int64 [batch]: values of each example, 1 or more."""
        super().__init__(name, used.flat_values)


def as_ragged(tensor: RawTensor | tf.RaggedTensor) -> tf.RaggedTensor:
    """All values of each example, missing ones included: [batch, values]."""
    if isinstance(tensor, tf.RaggedTensor):
        return tensor
    if isinstance(tensor, tf.SparseTensor):
        return tf.RaggedTensor.from_sparse(tensor)
    return tf.RaggedTensor.from_tensor(tensor if tensor.shape.rank == 2 else tensor[:, tf.newaxis])


def with_float64(tensors: Mapping[str, RawTensor], columns: Iterable[str]) -> dict[str, RawTensor]:
    """The data columns, these of them as float64: their bits as numbers, or the float32 where an example has no bits.

    A column is sparse if it was. Raises TrainingError if the examples do not have the bits.
    """
    found = dict(tensors)
    for name in columns:
        if (bits := bits_column(name)) not in tensors:
            raise TrainingError(
                f"the examples have no column {bits!r}, which holds the float64 values of {name!r}. Add it to"
                f' `data.schema`: feature {{ name: "{bits}" type: INT }}'
            )
        exact = RawColumn(bits, found.pop(bits))
        values = tf.where(exact.present, tf.bitcast(exact.values, tf.float64), RawColumn(name, tensors[name]).numbers)
        found[name] = _sparse(values) if isinstance(tensors[name], tf.SparseTensor) else values
    return found


def rows_of(tensor: RawTensor) -> tf.Tensor:
    """Number of examples: int64 []."""
    return tensor.dense_shape[0] if isinstance(tensor, tf.SparseTensor) else tf.shape(tensor, tf.int64)[0]


def suggest_type(column: str, kind: str) -> str:
    """Explain how to find the values of a column that do not have the expected type."""
    return f"If it should be {kind}, set `data.types.{column}: {kind}`; the run then names the first value that is not"


def split_values(tensor: RawTensor, separator: str | None) -> RawTensor | tf.RaggedTensor:
    """Split texts at the separator and strip white space; other columns are returned unchanged."""
    if separator is None or tensor.dtype != tf.string:
        return tensor
    ragged = as_ragged(tensor)
    cut = tf.ragged.map_flat_values(tf.strings.strip, tf.strings.split(ragged.flat_values, separator))
    return ragged.with_values(cut).merge_dims(1, 2)


def _missing_value(dtype: tf.DType) -> tf.Tensor:
    return tf.constant({tf.string: "", tf.int64: MISSING_INTEGER}.get(dtype, float("nan")), dtype)


def _sparse(values: tf.Tensor) -> tf.SparseTensor:
    """[batch] to [batch, 1] without NaN."""
    positions = tf.where(tf.logical_not(tf.math.is_nan(values)))
    indices = tf.concat([positions, tf.zeros_like(positions)], axis=1)
    return tf.SparseTensor(indices, tf.gather_nd(values, positions), tf.stack([tf.size(values, tf.int64), 1]))


def _dense(tensor: RawTensor) -> tf.Tensor:
    if isinstance(tensor, tf.SparseTensor):
        missing = _missing_value(tensor.dtype)
        # Without any value in the batch the width is 0; the result still needs one column.
        shape = tf.maximum(tensor.dense_shape, tf.constant([0, 1], tf.int64))
        tensor = tf.sparse.to_dense(tf.SparseTensor(tensor.indices, tensor.values, shape), default_value=missing)
    return tensor if tensor.shape.rank == 1 else tensor[:, 0]
