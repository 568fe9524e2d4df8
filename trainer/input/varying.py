"""Columns that have another number of values in each example, as flat tensors that move and are fetched by whole runs.

A column is held in parts: the row splits of each level, outermost first (int64, one more than there are rows), then the
flat values. So an example is a run of values: fetching it is one copy, and joining batches costs no call for each row.
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
    """A `tf.io.RaggedFeature`: a RaggedTensor of each batch, [batch, None, ...]."""

    feature: tf.io.RaggedFeature

    @property
    def parsed(self) -> tf.io.RaggedFeature:
        """What it is parsed as: with int64 splits, whatever it asks for."""
        return self.feature._replace(row_splits_dtype=tf.int64)

    def part_groups(self, column: tf.RaggedTensor) -> list[Parts]:
        """The parts of a parsed column."""
        return [(*column.nested_row_splits, column.flat_values)]

    def column(self, groups: Sequence[Parts]) -> tf.RaggedTensor:
        """The opposite of `part_groups`."""
        *splits, values = groups[0]
        lengths, _ = self._lengths()
        for row_splits, length in zip(splits[:0:-1], lengths[::-1], strict=True):
            values = (
                tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
                if length is None
                else tf.RaggedTensor.from_uniform_row_length(values, length, tf.size(row_splits, tf.int64) - 1)
            )
        return tf.RaggedTensor.from_row_splits(values, splits[0], validate=False)

    def none(self) -> list[Parts]:
        """Of no examples."""
        lengths, inner = self._lengths()
        return [(*(tf.zeros([1], tf.int64) for _ in (None, *lengths)), tf.zeros([0, *inner], self.feature.dtype))]

    def _lengths(self) -> tuple[list[int | None], list[int]]:
        """Of the levels below the first, their fixed length or None; and the shape of a flat value, as the innermost
        levels of fixed length make it when they are parsed.
        """
        levels: list[Any] = [getattr(partition, "length", None) for partition in self.feature.partitions]
        inner: list[int] = []
        while levels and levels[-1] is not None:
            inner.insert(0, levels.pop())
        return levels, inner


@dataclass(frozen=True)
class Sparse:
    """A `tf.io.VarLenFeature`: a SparseTensor of each batch, [batch, longest], its values at the left."""

    feature: tf.io.VarLenFeature
    key: str

    @property
    def parsed(self) -> tf.io.RaggedFeature:
        """What it is parsed as: the same values, without a pair of indices for each."""
        return tf.io.RaggedFeature(self.feature.dtype, self.key, row_splits_dtype=tf.int64)

    def part_groups(self, column: tf.RaggedTensor) -> list[Parts]:
        """The parts of a parsed column."""
        return [(column.row_splits, column.values)]

    def column(self, groups: Sequence[Parts]) -> tf.SparseTensor:
        """The opposite of `part_groups`."""
        splits, values = groups[0]
        return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_sparse()

    def none(self) -> list[Parts]:
        """Of no examples."""
        return [(tf.zeros([1], tf.int64), tf.zeros([0], self.feature.dtype))]


@dataclass(frozen=True)
class Indexed:
    """A `tf.io.SparseFeature`: a SparseTensor of each batch, [batch, *size], its values where the indices say."""

    feature: tf.io.SparseFeature

    @property
    def parsed(self) -> tf.io.SparseFeature:
        """What it is parsed as."""
        return self.feature

    def part_groups(self, column: tf.SparseTensor) -> list[Parts]:
        """The parts of a parsed column: its values, and their places within an example."""
        splits = tf.searchsorted(column.indices[:, 0], tf.range(column.dense_shape[0] + 1), out_type=tf.int64)
        return [(splits, column.values), (splits, column.indices[:, 1:])]

    def column(self, groups: Sequence[Parts]) -> tf.SparseTensor:
        """The opposite of `part_groups`."""
        (splits, values), (_, places) = groups
        ragged = tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        indices = tf.concat([ragged.value_rowids()[:, tf.newaxis], places], axis=1)
        return tf.SparseTensor(indices, values, tf.stack([ragged.nrows(), *self._size()]))

    def none(self) -> list[Parts]:
        """Of no examples."""
        splits = tf.zeros([1], tf.int64)
        values, places = tf.zeros([0], self.feature.dtype), tf.zeros([0, len(self._size())], tf.int64)
        return [(splits, values), (splits, places)]

    def _size(self) -> list[int]:
        size = self.feature.size
        return [int(one) for one in (size if isinstance(size, Sequence | tf.TensorShape) else [size])]


Varying = Ragged | Sparse | Indexed


def varying(key: str, feature: object) -> Varying | None:
    """How a column of that feature is held; None for one of fixed size."""
    if isinstance(feature, tf.io.RaggedFeature):
        return Ragged(feature if feature.value_key else feature._replace(value_key=key))
    if isinstance(feature, tf.io.VarLenFeature):
        return Sparse(feature, key)
    return Indexed(feature) if isinstance(feature, tf.io.SparseFeature) else None


def take(parts: Parts, which: tf.Tensor) -> Parts:
    """The rows at those places, in that order."""
    *splits, values = parts
    picked = tf.gather(tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False), which)
    return (*picked.nested_row_splits, picked.flat_values)


def cut(parts: Parts, start: tf.Tensor, stop: tf.Tensor) -> Parts:
    """The rows from start on, before stop."""
    *splits, values = parts
    kept = []
    for level in splits:
        inside = level[start : stop + 1]
        kept.append(inside - inside[0])
        start, stop = inside[0], inside[-1]
    return (*kept, values[start:stop])


def joined(parts: Sequence[Parts]) -> Parts:
    """Several batches as one."""
    *splits, values = zip(*parts, strict=True)
    return (*map(_joined_splits, splits), tf.concat(values, axis=0))


def _joined_splits(splits: Sequence[tf.Tensor]) -> tf.Tensor:
    lengths = tf.concat([one[1:] - one[:-1] for one in splits], axis=0)
    return tf.concat([tf.zeros([1], tf.int64), tf.cumsum(lengths)], axis=0)
