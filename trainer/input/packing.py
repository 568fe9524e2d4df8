"""Columns of the same type side by side: a few wide tensors move through the input pipeline, not many narrow ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import tensorflow as tf

from headrace.trainer.input import varying
from headrace.trainer.input.varying import Parts, Varying

Feature: TypeAlias = tf.io.FixedLenFeature | tf.io.VarLenFeature | tf.io.RaggedFeature | tf.io.SparseFeature
"""What a transformed feature spec may hold."""
Column: TypeAlias = tf.Tensor | tf.RaggedTensor | tf.SparseTensor
"""As its feature is parsed: [batch, ...]."""
Packed: TypeAlias = tuple[tf.Tensor, ...]
"""A tensor for each group of columns of fixed size, [batch, columns of the group, ...]; then the parts of each group of
the other columns, as `headrace.trainer.input.varying` describes them. Only plain tensors, whose first dimensions may
differ."""

plain = tf.autograph.experimental.do_not_convert
"""For functions given to tf.data that are graph code already: rewriting them costs tenths of a second each."""


class Packing:
    """How the columns of a feature spec are laid side by side.

    packing = Packing(transformed_feature_spec)
    packing.unpack(packing.parse(serialized))     # the columns, as tf.io.parse_example gives them

    A row of a group lies in one piece of memory, so that fetching an example costs one copy for each group, not one for
    each column.
    """

    def __init__(self, feature_spec: Mapping[str, Feature]) -> None:
        groups: dict[Any, list[str]] = {}
        self.varying: dict[str, Varying] = {}
        for name, feature in feature_spec.items():
            if held := varying.varying(name, feature):
                self.varying[name] = held
            else:
                groups.setdefault((feature.dtype, tuple(feature.shape)), []).append(name)
        self.groups = groups
        self.parsed = {name: self.varying[name].parsed if name in self.varying else one
                       for name, one in feature_spec.items()}  # fmt: skip
        self._empty = [parts for held in self.varying.values() for parts in held.none()]

    def parse(self, serialized: tf.Tensor) -> Packed:
        """Serialized tf.Examples, string [batch]."""
        return self.pack(tf.io.parse_example(serialized, self.parsed))

    def pack(self, columns: Mapping[str, Column]) -> Packed:
        """Columns as they are parsed from `self.parsed`."""
        groups = [tf.stack([columns[name] for name in names], axis=1) for names in self.groups.values()]
        varied = [parts for name, held in self.varying.items() for parts in held.part_groups(columns[name])]
        return (*groups, *(part for parts in varied for part in parts))

    def unpack(self, packed: Packed) -> dict[str, Column]:
        """The columns, as the feature spec says."""
        groups, varied = self._split(packed)
        columns: dict[str, Column] = {}
        for names, group in zip(self.groups.values(), groups, strict=True):
            columns |= dict(zip(names, tf.unstack(group, num=len(names), axis=1), strict=True))
        rest = iter(varied)
        for name, held in self.varying.items():
            columns[name] = held.column(list(islice(rest, len(held.none()))))
        return columns

    def none(self) -> Packed:
        """A batch of no examples."""
        groups = [tf.zeros([0, len(names), *shape], dtype) for (dtype, shape), names in self.groups.items()]
        return (*groups, *(part for parts in self._empty for part in parts))

    def rows(self, packed: Packed) -> tf.Tensor:
        """int64: the number of examples."""
        return tf.shape(packed[0], out_type=tf.int64)[0] - (0 if self.groups else 1)

    def take(self, packed: Packed, which: tf.Tensor) -> Packed:
        """The examples at those places, in that order."""
        groups, varied = self._split(packed)
        taken = (varying.take(parts, which) for parts in varied)
        return (*(tf.gather(group, which) for group in groups), *(part for parts in taken for part in parts))

    def cut(self, packed: Packed, start: tf.Tensor, stop: tf.Tensor) -> Packed:
        """The examples from start on, before stop."""
        groups, varied = self._split(packed)
        inside = (varying.cut(parts, start, stop) for parts in varied)
        return (*(group[start:stop] for group in groups), *(part for parts in inside for part in parts))

    def joined(self, batches: Sequence[Packed]) -> Packed:
        """Several batches as one."""
        groups, varied = zip(*map(self._split, batches), strict=True)
        together = (varying.joined(parts) for parts in zip(*varied, strict=True))
        wide = (tf.concat(group, axis=0) for group in zip(*groups, strict=True))
        return (*wide, *(part for parts in together for part in parts))

    def lengths(self, packed: Packed) -> tf.Tensor | None:
        """int64 [batch]: how many values each example has in the column where it has most; None if all are fixed."""
        _, varied = self._split(packed)
        counts = [parts[0][1:] - parts[0][:-1] for parts in varied]
        return tf.reduce_max(tf.stack(counts), axis=0) if counts else None

    def _split(self, packed: Packed) -> tuple[Packed, list[Parts]]:
        """The groups of fixed size, and the parts of each of the others."""
        parts = iter(packed)
        groups = tuple(islice(parts, len(self.groups)))
        return groups, list(self._runs(parts))

    def _runs(self, parts: Iterator[tf.Tensor]) -> Iterator[Parts]:
        for empty in self._empty:
            yield tuple(islice(parts, len(empty)))
