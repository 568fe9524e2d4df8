"""Batches of examples of similar length, so that little of a batch is padding, with their order still at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import tensorflow as tf

from headrace.trainer.input.shuffle import permutation

POOL = 64
"""Batches whose examples are sorted by length together. An example meets others of its length out of so many batches,
other ones each epoch."""
PARTS = 4
"""Such pools in a split, at least: sorted as a whole, it would give nearly the same batches in each epoch."""
ROUNDS = 8
"""Buckets where all of a batch have to be of one, and nothing says which."""
PADDING = 0.25
"""The share of a batch that may be padding before `auto` sorts by length."""
LONG = 8
"""Values in an average example from which on a feature is a sequence to `auto`."""


@dataclass(frozen=True)
class Buckets:
    """Lengths at which one bucket ends and the next begins; none: each length is a bucket."""

    boundaries: tuple[int, ...] = ()

    def keys(self, lengths: tf.Tensor) -> tf.Tensor:
        """int64: the number of each length's bucket."""
        if not self.boundaries:
            return lengths
        return tf.searchsorted(tf.constant(sorted(self.boundaries), tf.int64), lengths, "left", out_type=tf.int64)

    def few(self, lengths: np.ndarray) -> Buckets:
        """A few of which each has about as many examples, where each length is a bucket."""
        if self.boundaries:
            return self
        shares = np.linspace(0, 1, ROUNDS + 1)[1:-1]
        return Buckets(tuple(sorted({int(length) for length in np.quantile(lengths, shares, method="higher")})))

    def order(self, lengths: tf.Tensor, batch_size: int, seed: tf.Tensor) -> tf.Tensor:
        """int64: places of the examples, given in a random order, so that those of a batch are of one bucket or of
        neighbouring ones; the batches in random order, but a smaller one last. seed: int64 [2].
        """
        size = tf.size(lengths, tf.int64)
        keys = self.keys(lengths)
        pooled = tf.clip_by_value(size // PARTS, batch_size, POOL * batch_size)
        pool = tf.range(size) // pooled
        order = tf.argsort(pool * (tf.reduce_max(keys) + 1) + keys, stable=True)
        whole = size // batch_size
        batches = tf.reshape(order[: whole * batch_size], [whole, batch_size])
        batches = tf.gather(batches, permutation(whole, seed))
        return tf.cast(tf.concat([tf.reshape(batches, [-1]), order[whole * batch_size :]], axis=0), tf.int64)


def choose_buckets(
    choice: Literal["auto"] | tuple[int, ...] | None, lengths: np.ndarray | None, batch_size: int
) -> tuple[Buckets | None, str]:
    """Decide for `train.input.length_buckets`, and say why, in words for the training record.

    lengths: of some examples, in the order of the files; None if no feature has lengths.
    """
    if choice is None or lengths is None or not len(lengths):
        return None, ""
    share = padding(lengths, batch_size)
    if choice == "auto":
        if share <= PADDING or lengths.mean() < LONG:
            return None, ""
        return Buckets(), f"; batches are of similar length, since {share:.0%} of them would be padding otherwise"
    return Buckets(choice), f"; batches are of similar length, by the {len(choice) + 1} `length_buckets`"


def padding(lengths: np.ndarray, batch_size: int) -> float:
    """The share of batches of random composition that would be padding, if each were padded to its longest."""
    mixed = np.random.default_rng(0).permutation(lengths)
    size = min(batch_size, len(mixed))
    whole = mixed[: len(mixed) // size * size].reshape(-1, size)
    padded = whole.max(axis=1).sum() * size
    return float(1 - whole.sum() / padded) if padded else 0.0
