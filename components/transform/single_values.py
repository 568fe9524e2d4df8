"""Data columns with at most one value per example, as Arrow arrays: what features are computed from without a graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from numpy.typing import NDArray

from headrace.components.statistics.columns import values_of
from headrace.trainer.columns.raw import MISSING_INTEGER

INTEGER_MISSING = int(MISSING_INTEGER)
_TYPES = {tf.string: pa.large_binary(), tf.int64: pa.int64(), tf.float32: pa.float32()}
_SINGLE = ((), (1,))
"""Shapes of a feature with one value."""

Numbers = NDArray[np.generic]


class SingleValues:
    """One data column of a batch. Its missing values are those of `RawColumn`."""

    def __init__(self, values: pa.Array, present: NDArray[np.bool_]) -> None:
        """
        Args:
            values: Of the rows that have one; texts may be codes of texts.
            present: bool [rows]: which rows those are.
        """
        self.values, self._present = values, present

    @property
    def is_float(self) -> bool:
        return bool(pa.types.is_floating(self.values.type))

    @property
    def _of_texts(self) -> bool:
        return bool(pa.types.is_large_binary(self.values.type) or pa.types.is_dictionary(self.values.type))

    @cached_property
    def dense(self) -> Numbers:
        """The numbers of all rows as a dense tensor has them: int64, float32 or float64 [rows]."""
        numbers = self.values.to_numpy()
        if self._present.all():
            return numbers
        dense = np.full(len(self._present), np.nan if self.is_float else INTEGER_MISSING, numbers.dtype)
        dense[self._present] = numbers
        return dense

    @cached_property
    def codes(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """The distinct values, and the number of each row's among them: int64 [rows]; their count where missing."""
        distinct, of_present = _distinct(self.values)
        missing = b"" if pa.types.is_large_binary(distinct.type) else INTEGER_MISSING
        if (place := distinct.index(pa.scalar(missing, distinct.type)).as_py()) >= 0:
            of_present = np.where(of_present == place, len(distinct), of_present)
        codes = np.full(len(self._present), len(distinct), np.int64)
        codes[self._present] = of_present
        return distinct, codes

    @property
    def tensor(self) -> tf.Tensor:
        """The values of all rows as a dense tensor has them: numbers as `dense`, or string [rows], "" where missing."""
        if not self._of_texts:
            return tf.constant(self.dense)
        distinct, codes = self.codes
        return tf.constant(np.array([*as_texts(distinct), b""], object)[codes], tf.string)

    def floats(self) -> NDArray[np.float64]:
        """float64 [rows], NaN where missing. TensorFlow casts, since it takes the smallest floats for 0."""
        numbers = tf.cast(self.dense, tf.float64).numpy()
        return numbers if self.is_float else np.where(self.dense == INTEGER_MISSING, np.nan, numbers)

    def with_bits(self, bits: SingleValues) -> SingleValues:
        """The same as float64: the bits as numbers, or the float32 where a row has none."""
        exact = bits.dense
        numbers = np.where(exact == INTEGER_MISSING, self.floats(), exact.view(np.float64))
        present = ~np.isnan(numbers)
        return SingleValues(pa.array(numbers[present]), present)

    def texts(self, missing: object) -> pa.Array:
        """The texts of all rows in any order, "" where missing unless there is a substitute."""
        if missing is None and self._of_texts:
            return self.values
        distinct, codes = self.codes
        substitute = b"" if missing is None else str(missing).encode()
        texts = pa.array([*as_texts(distinct), substitute], pa.large_binary())
        return texts.take(pa.array(codes))


def as_texts(distinct: pa.Array) -> list[bytes]:
    """Values as texts, integers in decimal."""
    values: list[Any] = distinct.to_numpy(zero_copy_only=False).tolist()
    return values if pa.types.is_large_binary(distinct.type) else [b"%d" % value for value in values]


def is_single(spec: Any) -> bool:
    """Whether a data column can be read here, as far as the schema says."""
    fixed = isinstance(spec, tf.io.FixedLenFeature) and tuple(spec.shape) in _SINGLE
    return (fixed or isinstance(spec, tf.io.VarLenFeature)) and spec.dtype in _TYPES


def single_values(batch: pa.RecordBatch, spec: Mapping[str, Any]) -> dict[str, SingleValues] | None:
    """The data columns of a batch; None if one does not have the type or the number of values that the graph needs.

    Args:
        batch: Columns of lists, in which a null has no values, or of type null.
        spec: How the graph parses each column.
    """
    found: dict[str, SingleValues] = {}
    for name, one in spec.items():
        if (values := _single(batch, name, one)) is None:
            return None
        found[name] = values
    return found


def _is_of(found: pa.DataType, kind: pa.DataType) -> bool:
    coded = pa.types.is_dictionary(found) and pa.types.is_binary(found.value_type)
    return bool(found == kind or (coded and pa.types.is_large_binary(kind)))


def _distinct(values: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """The distinct values that occur, texts as large_binary, and the number of each value among them."""
    if not pa.types.is_dictionary(values.type):
        encoded = values.dictionary_encode()
        return encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)
    codes = np.asarray(values.indices).astype(np.int64)
    present = np.flatnonzero(np.bincount(codes, minlength=len(values.dictionary)))
    places = np.empty(len(values.dictionary), np.int64)
    places[present] = np.arange(len(present))
    return values.dictionary.take(pa.array(present)).cast(pa.large_binary()), places.take(codes)


def _single(batch: pa.RecordBatch, name: str, spec: Any) -> SingleValues | None:
    kind, place = _TYPES[spec.dtype], batch.schema.get_field_index(name)
    column = pa.nulls(batch.num_rows) if place < 0 else batch.column(place)
    if pa.types.is_null(column.type):
        values, present = pa.array([], kind), np.zeros(batch.num_rows, np.bool_)
    else:
        lengths, values = np.diff(np.asarray(column.offsets)), values_of(column)
        present = lengths == 1
        if not _is_of(values.type, kind) or lengths.max(initial=0) > 1 or len(values) != present.sum():
            return None
    if isinstance(spec, tf.io.FixedLenFeature) and not present.all():
        return None
    return SingleValues(values, present)
