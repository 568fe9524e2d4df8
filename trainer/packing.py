"""Columns of the same type side by side: a few wide tensors move through the input pipeline, not many narrow ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

Packed = tuple[tf.Tensor, ...]
"""One tensor for each group of columns: [batch, columns of the group, ...]."""

plain = tf.autograph.experimental.do_not_convert
"""For functions given to tf.data that are graph code already: rewriting them costs tenths of a second each."""


class Packing:
    """How the columns of a feature spec are laid side by side.

    packing = Packing(transformed_feature_spec)
    packing.unpack(packing.pack(columns))     # the same columns

    A row of a group lies in one piece of memory, so that fetching an example costs one copy for each group, not one for
    each column.
    """

    def __init__(self, feature_spec: Mapping[str, tf.io.FixedLenFeature]) -> None:
        groups: dict[Any, list[str]] = {}
        for name, feature in feature_spec.items():
            groups.setdefault((feature.dtype, tuple(feature.shape)), []).append(name)
        self.groups = groups

    @property
    def bytes_per_example(self) -> int:
        """Of one parsed example; a string counts as its pointer."""
        return sum(dtype.size * math.prod(shape) * len(names) for (dtype, shape), names in self.groups.items())

    def pack(self, columns: Mapping[str, tf.Tensor]) -> Packed:
        """Name → [batch, ...] to one tensor for each group."""
        return tuple(tf.stack([columns[name] for name in names], axis=1) for names in self.groups.values())

    def unpack(self, packed: Packed) -> dict[str, tf.Tensor]:
        """The opposite of `pack`."""
        columns: dict[str, tf.Tensor] = {}
        for names, group in zip(self.groups.values(), packed, strict=True):
            columns |= dict(zip(names, tf.unstack(group, num=len(names), axis=1), strict=True))
        return columns

    def none(self) -> Packed:
        """A batch of no examples."""
        return tuple(tf.zeros([0, len(names), *shape], dtype) for (dtype, shape), names in self.groups.items())


def rows(packed: Packed) -> tf.Tensor:
    """int64: the number of examples."""
    return tf.shape(packed[0], out_type=tf.int64)[0]


def take(packed: Packed, which: tf.Tensor) -> Packed:
    """The examples at those places, in that order."""
    return tuple(tf.gather(group, which) for group in packed)


def joined(batches: list[Packed]) -> Packed:
    """Several batches as one."""
    return tuple(tf.concat(groups, axis=0) for groups in zip(*batches, strict=True))
