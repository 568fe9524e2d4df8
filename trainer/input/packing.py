"""Packs columns of the same type together: the input pipeline moves few wide tensors, not many narrow ones.

A column of lists, whose examples have any number of values, is two flat tensors: row splits and values. So an example
is a run of values, which is moved and fetched as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from headrace.common.errors import TrainingError

Feature: TypeAlias = tf.io.FixedLenFeature | tf.io.VarLenFeature | tf.io.RaggedFeature
"""The kinds of features in a transformed feature spec; ragged ones have one level."""
Column: TypeAlias = tf.Tensor | tf.RaggedTensor | tf.SparseTensor
"""A parsed feature: [batch, ...]."""
Packed: TypeAlias = tuple[tf.Tensor, ...]
"""A tensor for each group of columns of fixed size, [batch, columns of the group, ...], followed by the row splits,
int64 [batch + 1], and the values, [values], of each column of lists."""

no_autograph = tf.autograph.experimental.do_not_convert
"""For functions passed to tf.data that are graph code already: converting them costs tenths of a second each."""


class Packing:
    """The layout of the columns of a feature spec in packed batches.

    packing = Packing(transformed_feature_spec)
    packing.unpack(packing.parse(serialized))     # the columns, as tf.io.parse_example returns them

    A row of a group is contiguous in memory, so fetching an example costs one copy per group and not one per column.
    """

    def __init__(self, feature_spec: Mapping[str, Feature]) -> None:
        """Raises TrainingError for a feature that is neither of fixed size nor a list of values."""
        self.groups: dict[Any, list[str]] = {}
        self.lists: dict[str, Feature] = {}
        self.parsed: dict[str, Feature] = {}
        for name, feature in feature_spec.items():
            if isinstance(feature, tf.io.FixedLenFeature):
                self.groups.setdefault((feature.dtype, tuple(feature.shape)), []).append(name)
                self.parsed[name] = feature
            elif is_list_feature(feature):
                self.lists[name] = feature
                key = getattr(feature, "value_key", None) or name
                self.parsed[name] = tf.io.RaggedFeature(feature.dtype, key, row_splits_dtype=tf.int64)
            else:
                raise TrainingError(
                    f"features.{name}: it is stored as {type(feature).__name__} in several dimensions, and models of"
                    " ours take tensors, and lists with one value after the other: return a tf.Tensor, or a"
                    " tf.RaggedTensor [batch, values]"
                )

    @property
    def in_tensors(self) -> bool:
        """Whether packed batches hold the values of the columns."""
        return True

    @property
    def can_be_split(self) -> bool:
        """Whether the columns of a batch can be split into those of smaller ones."""
        return not self.lists

    def parse(self, serialized: tf.Tensor) -> Packed:
        """Parse and pack serialized tf.Examples, string [batch]."""
        return self.pack(tf.io.parse_example(serialized, self.parsed))

    def pack(self, columns: Mapping[str, tf.Tensor | tf.RaggedTensor]) -> Packed:
        """Pack columns, those of lists as tf.RaggedTensor."""
        groups = [tf.stack([columns[name] for name in names], axis=1) for names in self.groups.values()]
        return self._packed(groups, [columns[name] for name in self.lists])

    def columns(self, packed: Packed) -> dict[str, tf.Tensor | tf.RaggedTensor]:
        groups, lists = self._split(packed)
        columns: dict[str, tf.Tensor | tf.RaggedTensor] = dict(zip(self.lists, lists, strict=True))
        for names, group in zip(self.groups.values(), groups, strict=True):
            columns |= dict(zip(names, tf.unstack(group, num=len(names), axis=1), strict=True))
        return columns

    def unpack(self, packed: Packed) -> dict[str, Column]:
        """Return the columns, as the feature spec describes them."""
        columns = self.columns(packed)
        return columns | {name: as_described(feature, columns[name]) for name, feature in self.lists.items()}

    def empty(self) -> Packed:
        """Return a batch without examples."""
        groups = [tf.zeros([0, len(names), *shape], dtype) for (dtype, shape), names in self.groups.items()]
        features = self.lists.values()
        return (*groups, *(part for one in features for part in (tf.zeros([1], tf.int64), tf.zeros([0], one.dtype))))

    def rows(self, packed: Packed) -> tf.Tensor:
        """int64: the number of examples."""
        return tf.shape(packed[0], out_type=tf.int64)[0] - (0 if self.groups else 1)

    def take(self, packed: Packed, which: tf.Tensor) -> Packed:
        """Return the examples at the given indices, in that order."""
        groups, lists = self._split(packed)
        return self._packed([tf.gather(group, which) for group in groups], [tf.gather(one, which) for one in lists])

    def slice_rows(self, packed: Packed, start: tf.Tensor, stop: tf.Tensor) -> Packed:
        """Return the examples from start, inclusive, to stop, exclusive."""
        groups, lists = self._split(packed)
        inside = []
        for column in lists:
            splits = column.row_splits[start : stop + 1]
            inside.append(ragged(splits - splits[0], column.values[splits[0] : splits[-1]]))
        return self._packed([group[start:stop] for group in groups], inside)

    def concat(self, batches: Sequence[Packed]) -> Packed:
        groups, lists = zip(*map(self._split, batches), strict=True)
        wide = [tf.concat(group, axis=0) for group in zip(*groups, strict=True)]
        return self._packed(wide, [tf.concat(column, axis=0) for column in zip(*lists, strict=True)])

    def lengths(self, packed: Packed) -> tf.Tensor | None:
        """int64 [batch]: values of each example in the column where it has most; None if all are of fixed size."""
        _, lists = self._split(packed)
        return tf.reduce_max(tf.stack([column.row_lengths() for column in lists]), axis=0) if lists else None

    def _packed(self, groups: Sequence[tf.Tensor], lists: Sequence[tf.RaggedTensor]) -> Packed:
        return (*groups, *(part for column in lists for part in (column.row_splits, column.values)))

    def _split(self, packed: Packed) -> tuple[Packed, list[tf.RaggedTensor]]:
        """Split into the groups of fixed size and the columns of lists."""
        groups, parts = packed[: len(self.groups)], packed[len(self.groups) :]
        return groups, [ragged(*both) for both in zip(parts[::2], parts[1::2], strict=True)]


def is_list_feature(feature: object) -> bool:
    """Whether an example has any number of values, one after the other."""
    one_level = isinstance(feature, tf.io.RaggedFeature) and not feature.partitions
    return one_level or isinstance(feature, tf.io.VarLenFeature)


def ragged(splits: tf.Tensor, values: tf.Tensor) -> tf.RaggedTensor:
    """A column of lists. splits: int64 [batch + 1]; values: [values]."""
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def as_described(feature: Feature, column: tf.RaggedTensor) -> tf.RaggedTensor | tf.SparseTensor:
    """A column of lists as parsing its feature returns it."""
    return column.to_sparse() if isinstance(feature, tf.io.VarLenFeature) else column
