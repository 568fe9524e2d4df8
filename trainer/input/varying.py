"""Columns with any number of values per example, stored as flat tensors that are moved and fetched as whole runs.

A column is stored in parts: the row splits of each level, outermost first (int64, one more than there are rows), and
the flat values. So an example is a run of values: fetching it is one copy, and concatenating batches needs no call per
row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

Parts = tuple[tf.Tensor, ...]
"""Row splits from the outermost level inwards, int64 [rows + 1] each; then the values, [values, ...]."""


@dataclass(frozen=True)
class Ragged:
    """The layout of a `tf.io.RaggedFeature`: a RaggedTensor per batch, [batch, None, ...]."""

    feature: tf.io.RaggedFeature

    @property
    def parsed(self) -> tf.io.RaggedFeature:
        """The feature to parse, always with int64 splits."""
        return self.feature._replace(row_splits_dtype=tf.int64)

    def part_groups(self, column: tf.RaggedTensor) -> list[Parts]:
        """Split a parsed column into parts."""
        return [(*column.nested_row_splits, column.flat_values)]

    def column(self, groups: Sequence[Parts]) -> tf.RaggedTensor:
        """Rebuild the column from its parts."""
        *splits, values = groups[0]
        lengths, _ = self._lengths()
        for row_splits, length in zip(splits[:0:-1], lengths[::-1], strict=True):
            values = (
                tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
                if length is None
                else tf.RaggedTensor.from_uniform_row_length(values, length, tf.size(row_splits, tf.int64) - 1)
            )
        return tf.RaggedTensor.from_row_splits(values, splits[0], validate=False)

    def empty(self) -> list[Parts]:
        """The parts of no examples."""
        lengths, inner = self._lengths()
        return [(*(tf.zeros([1], tf.int64) for _ in (None, *lengths)), tf.zeros([0, *inner], self.feature.dtype))]

    def _lengths(self) -> tuple[list[int | None], list[int]]:
        """The fixed length, or None, of each level below the first; and the shape of a flat value.

        Parsing turns the innermost levels of fixed length into dimensions of the flat values.
        """
        levels: list[Any] = [getattr(partition, "length", None) for partition in self.feature.partitions]
        inner: list[int] = []
        while levels and levels[-1] is not None:
            inner.insert(0, levels.pop())
        return levels, inner


@dataclass(frozen=True)
class Sparse:
    """The layout of a `tf.io.VarLenFeature`: a SparseTensor per batch, [batch, longest], left-aligned."""

    feature: tf.io.VarLenFeature
    key: str

    @property
    def parsed(self) -> tf.io.RaggedFeature:
        """The feature to parse: the same values, without a pair of indices for each."""
        return tf.io.RaggedFeature(self.feature.dtype, self.key, row_splits_dtype=tf.int64)

    def part_groups(self, column: tf.RaggedTensor) -> list[Parts]:
        """Split a parsed column into parts."""
        return [(column.row_splits, column.values)]

    def column(self, groups: Sequence[Parts]) -> tf.SparseTensor:
        """Rebuild the column from its parts."""
        splits, values = groups[0]
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_sparse()

    def empty(self) -> list[Parts]:
        """The parts of no examples."""
        return [(tf.zeros([1], tf.int64), tf.zeros([0], self.feature.dtype))]


@dataclass(frozen=True)
class Indexed:
    """The layout of a `tf.io.SparseFeature`: a SparseTensor per batch, [batch, *size], with explicit indices."""

    feature: tf.io.SparseFeature

    @property
    def parsed(self) -> tf.io.SparseFeature:
        """The feature to parse."""
        return self.feature

    def part_groups(self, column: tf.SparseTensor) -> list[Parts]:
        """Split a parsed column into two groups of parts: its values, and their indices within an example."""
        splits = tf.searchsorted(column.indices[:, 0], tf.range(column.dense_shape[0] + 1), out_type=tf.int64)
        return [(splits, column.values), (splits, column.indices[:, 1:])]

    def column(self, groups: Sequence[Parts]) -> tf.SparseTensor:
        """Rebuild the column from its parts."""
        (splits, values), (_, inner) = groups
        ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        indices = tf.concat([ragged.value_rowids()[:, tf.newaxis], inner], axis=1)
        return tf.SparseTensor(indices, values, tf.stack([ragged.nrows(), *self._size()]))

    def empty(self) -> list[Parts]:
        """The parts of no examples."""
        splits = tf.zeros([1], tf.int64)
        values, indices = tf.zeros([0], self.feature.dtype), tf.zeros([0, len(self._size())], tf.int64)
        return [(splits, values), (splits, indices)]

    def _size(self) -> list[int]:
        size = self.feature.size
        return [int(one) for one in (size if isinstance(size, Sequence | tf.TensorShape) else [size])]


Varying = Ragged | Sparse | Indexed


def varying(key: str, feature: object) -> Varying | None:
    """Return the layout for a feature; None if it is of fixed size."""
    if isinstance(feature, tf.io.RaggedFeature):
        return Ragged(feature if feature.value_key else feature._replace(value_key=key))
    if isinstance(feature, tf.io.VarLenFeature):
        return Sparse(feature, key)
    return Indexed(feature) if isinstance(feature, tf.io.SparseFeature) else None


def take(parts: Parts, which: tf.Tensor) -> Parts:
    """Return the rows at the given indices, in that order."""
    *splits, values = parts
    picked = tf.gather(tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False), which)
    return (*picked.nested_row_splits, picked.flat_values)


def slice_rows(parts: Parts, start: tf.Tensor, stop: tf.Tensor) -> Parts:
    """Return the rows from start, inclusive, to stop, exclusive."""
    *splits, values = parts
    sliced = []
    for level in splits:
        inside = level[start : stop + 1]
        sliced.append(inside - inside[0])
        start, stop = inside[0], inside[-1]  # the range of rows in the next level
    return (*sliced, values[start:stop])


def concat(parts: Sequence[Parts]) -> Parts:
    """Concatenate batches."""
    *splits, values = zip(*parts, strict=True)
    return (*map(_concat_splits, splits), tf.concat(values, axis=0))


def _concat_splits(splits: Sequence[tf.Tensor]) -> tf.Tensor:
    lengths = tf.concat([one[1:] - one[:-1] for one in splits], axis=0)
    return tf.concat([tf.zeros([1], tf.int64), tf.cumsum(lengths)], axis=0)
