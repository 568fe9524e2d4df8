"""Batches of examples of similar length, to reduce padding while the order stays random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import tensorflow as tf

from headrace.trainer.input.shuffle import permutation

POOL = 64
"""Batches whose examples are sorted by length together. An example meets others of its length from this many batches,
and different ones in each epoch."""
MIN_POOLS = 4
"""Minimum number of such pools in a split: sorting it as a whole would give nearly the same batches in each epoch."""
DEFAULT_BUCKETS = 8
"""Number of buckets if all examples of a batch have to be from the same one and the config does not define them."""
MAX_PADDING = 0.25
"""Fraction of padding in a batch above which `auto` sorts by length."""
MIN_LENGTH = 8
"""Average number of values from which `auto` treats a feature as a sequence."""


@dataclass(frozen=True)
class LengthBuckets:
    """Upper bounds of the buckets, inclusive; without any, each length is a bucket."""

    boundaries: tuple[int, ...] = ()

    def keys(self, lengths: tf.Tensor) -> tf.Tensor:
        """int64: the bucket of each length."""
        if not self.boundaries:
            return lengths
        return tf.searchsorted(tf.constant(sorted(self.boundaries), tf.int64), lengths, "left", out_type=tf.int64)

    def with_boundaries(self, lengths: np.ndarray) -> LengthBuckets:
        """Return a few buckets with about as many examples each, if each length is a bucket now."""
        if self.boundaries:
            return self
        quantiles = np.linspace(0, 1, DEFAULT_BUCKETS + 1)[1:-1]
        boundaries = np.quantile(lengths, quantiles, method="higher")
        return LengthBuckets(tuple(sorted({int(length) for length in boundaries})))

    def order(self, lengths: tf.Tensor, batch_size: int, seed: tf.Tensor) -> tf.Tensor:
        """Reorder examples in random order so that those of a batch are from the same bucket or adjacent ones.

        The batches are in random order, except that a smaller one comes last.

        Args:
            lengths: int64 [examples], in a random order.
            batch_size: Examples in a batch.
            seed: int64 [2].

        Returns:
            int64 [examples]: indices of the examples.
        """
        size = tf.size(lengths, tf.int64)
        keys = self.keys(lengths)
        pool_size = tf.clip_by_value(size // MIN_POOLS, batch_size, POOL * batch_size)
        pool = tf.range(size) // pool_size
        # A stable sort by (pool, bucket) keeps the random order within a bucket.
        order = tf.argsort(pool * (tf.reduce_max(keys) + 1) + keys, stable=True)
        whole = size // batch_size
        batches = tf.reshape(order[: whole * batch_size], [whole, batch_size])
        batches = tf.gather(batches, permutation(whole, seed))
        return tf.cast(tf.concat([tf.reshape(batches, [-1]), order[whole * batch_size :]], axis=0), tf.int64)


def choose_buckets(
    choice: Literal["auto"] | tuple[int, ...] | None, lengths: np.ndarray | None, batch_size: int
) -> tuple[LengthBuckets | None, str]:
    """Decide on buckets as `train.input.length_buckets` says; the text explains why, for the training record.

    lengths: lengths of some examples, in the order of the files; None if no feature has a variable length.
    """
    if choice is None or lengths is None or not len(lengths):
        return None, ""
    share = padding_share(lengths, batch_size)
    if choice == "auto":
        if share <= MAX_PADDING or lengths.mean() < MIN_LENGTH:
            return None, ""
        return LengthBuckets(), f"; batches are of similar length, since {share:.0%} of them would be padding otherwise"
    return LengthBuckets(choice), f"; batches are of similar length, by the {len(choice) + 1} `length_buckets`"


def padding_share(lengths: np.ndarray, batch_size: int) -> float:
    """Return the fraction of padding in batches of random composition, each padded to its longest example."""
    mixed = np.random.default_rng(0).permutation(lengths)
    size = min(batch_size, len(mixed))
    whole = mixed[: len(mixed) // size * size].reshape(-1, size)
    padded = whole.max(axis=1).sum() * size
    return float(1 - whole.sum() / padded) if padded else 0.0
