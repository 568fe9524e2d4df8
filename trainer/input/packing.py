"""Packs columns of the same type together: the input pipeline moves few wide tensors, not many narrow ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import tensorflow as tf

from headrace.trainer.input import varying
from headrace.trainer.input.varying import Parts, Varying

Feature: TypeAlias = tf.io.FixedLenFeature | tf.io.VarLenFeature | tf.io.RaggedFeature | tf.io.SparseFeature
"""The kinds of features in a transformed feature spec."""
Column: TypeAlias = tf.Tensor | tf.RaggedTensor | tf.SparseTensor
"""A parsed feature: [batch, ...]."""
Packed: TypeAlias = tuple[tf.Tensor, ...]
"""A tensor for each group of columns of fixed size, [batch, columns of the group, ...], followed by the parts of the
columns of variable length, as described in `headrace.trainer.input.varying`. These are plain tensors, whose first
dimensions may differ."""

no_autograph = tf.autograph.experimental.do_not_convert
"""For functions passed to tf.data that are graph code already: converting them costs tenths of a second each."""


class Packing:
    """The layout of the columns of a feature spec in packed batches.

    packing = Packing(transformed_feature_spec)
    packing.unpack(packing.parse(serialized))     # the columns, as tf.io.parse_example returns them

    A row of a group is contiguous in memory, so fetching an example costs one copy per group and not one per column.
    """

    def __init__(self, feature_spec: Mapping[str, Feature]) -> None:
        groups: dict[Any, list[str]] = {}
        self.varying: dict[str, Varying] = {}
        for name, feature in feature_spec.items():
            if layout := varying.varying(name, feature):
                self.varying[name] = layout
            else:
                groups.setdefault((feature.dtype, tuple(feature.shape)), []).append(name)
        self.groups = groups
        self.parsed = {
            name: self.varying[name].parsed if name in self.varying else one for name, one in feature_spec.items()
        }
        self._empty = [parts for layout in self.varying.values() for parts in layout.empty()]

    @property
    def in_tensors(self) -> bool:
        """Whether packed batches hold the values of the columns."""
        return True

    @property
    def can_be_split(self) -> bool:
        """Whether the columns of a batch can be split into those of smaller ones."""
        return not self.varying

    def parse(self, serialized: tf.Tensor) -> Packed:
        """Parse and pack serialized tf.Examples, string [batch]."""
        return self.pack(tf.io.parse_example(serialized, self.parsed))

    def pack(self, columns: Mapping[str, Column]) -> Packed:
        """Pack columns that were parsed with the spec `self.parsed`."""
        groups = [tf.stack([columns[name] for name in names], axis=1) for names in self.groups.values()]
        varied = [parts for name, layout in self.varying.items() for parts in layout.part_groups(columns[name])]
        return (*groups, *(part for parts in varied for part in parts))

    def unpack(self, packed: Packed) -> dict[str, Column]:
        """Return the columns, as the feature spec describes them."""
        groups, varied = self._split(packed)
        columns: dict[str, Column] = {}
        for names, group in zip(self.groups.values(), groups, strict=True):
            columns |= dict(zip(names, tf.unstack(group, num=len(names), axis=1), strict=True))
        rest = iter(varied)
        for name, layout in self.varying.items():
            columns[name] = layout.column(list(islice(rest, len(layout.empty()))))
        return columns

    def empty(self) -> Packed:
        """Return a batch without examples."""
        groups = [tf.zeros([0, len(names), *shape], dtype) for (dtype, shape), names in self.groups.items()]
        return (*groups, *(part for parts in self._empty for part in parts))

    def rows(self, packed: Packed) -> tf.Tensor:
        """int64: the number of examples."""
        return tf.shape(packed[0], out_type=tf.int64)[0] - (0 if self.groups else 1)

    def take(self, packed: Packed, which: tf.Tensor) -> Packed:
        """Return the examples at the given indices, in that order."""
        groups, varied = self._split(packed)
        taken = (varying.take(parts, which) for parts in varied)
        return (*(tf.gather(group, which) for group in groups), *(part for parts in taken for part in parts))

    def slice_rows(self, packed: Packed, start: tf.Tensor, stop: tf.Tensor) -> Packed:
        """Return the examples from start, inclusive, to stop, exclusive."""
        groups, varied = self._split(packed)
        inside = (varying.slice_rows(parts, start, stop) for parts in varied)
        return (*(group[start:stop] for group in groups), *(part for parts in inside for part in parts))

    def concat(self, batches: Sequence[Packed]) -> Packed:
        """Concatenate batches."""
        groups, varied = zip(*map(self._split, batches), strict=True)
        parts = (varying.concat(column) for column in zip(*varied, strict=True))
        wide = (tf.concat(group, axis=0) for group in zip(*groups, strict=True))
        return (*wide, *(part for column in parts for part in column))

    def lengths(self, packed: Packed) -> tf.Tensor | None:
        """int64 [batch]: values of each example in the column where it has most; None if all are of fixed size."""
        _, varied = self._split(packed)
        counts = [parts[0][1:] - parts[0][:-1] for parts in varied]
        return tf.reduce_max(tf.stack(counts), axis=0) if counts else None

    def _split(self, packed: Packed) -> tuple[Packed, list[Parts]]:
        """Split into the groups of fixed size, and the parts of each other column."""
        parts = iter(packed)
        groups = tuple(islice(parts, len(self.groups)))
        return groups, list(self._runs(parts))

    def _runs(self, parts: Iterator[tf.Tensor]) -> Iterator[Parts]:
        for empty in self._empty:
            yield tuple(islice(parts, len(empty)))
