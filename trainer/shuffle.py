"""Shuffling whole tensors of examples by gather, which costs a copy for each batch and no call for each example."""

from __future__ import annotations

import tensorflow as tf

from trainer.packing import Packed, Packing, joined, plain, rows, take


def draws(seed: int) -> tf.data.Dataset:
    """Endless pairs of random numbers, int64 [2]: the same for the same seed, others each time it is iterated."""
    return tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).batch(2, drop_remainder=True)


def permutation(size: tf.Tensor | int, draw: tf.Tensor) -> tf.Tensor:
    """int64 [size]: 0 to size-1 in an order that follows from the draw."""
    return tf.random.experimental.stateless_shuffle(tf.range(tf.cast(size, tf.int64)), seed=draw)


def shuffled_stream(batches: tf.data.Dataset, packing: Packing, buffer: int, seed: int) -> tf.data.Dataset:
    """A stream of packed batches with its examples shuffled through a pool of `buffer` of them.

    Half as many fresh examples join the pool, the whole is mixed, and all but a pool of them go on. So an example waits
    as long as in a record-by-record shuffle of the same buffer. The batches that come out have other sizes than those
    that went in.
    """
    half = max(buffer // 2, 1)
    fresh = batches.rebatch(half).concatenate(tf.data.Dataset.from_tensors(packing.none()))  # the empty one flushes

    @plain
    def mix(pool: Packed, element: tuple[Packed, tf.Tensor]) -> tuple[Packed, Packed]:
        arriving, draw = element
        mixed = joined([pool, arriving])
        mixed = take(mixed, permutation(rows(mixed), draw))
        flush = tf.equal(rows(arriving), 0)
        hold = tf.where(flush, tf.constant(0, tf.int64), tf.minimum(rows(mixed), buffer))
        return tuple(group[:hold] for group in mixed), tuple(group[hold:] for group in mixed)

    mixed = tf.data.Dataset.zip(fresh, draws(seed)).scan(packing.none(), mix)
    return mixed.filter(plain(lambda *packed: rows(packed) > 0))
