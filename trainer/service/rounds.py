"""Rounds of coordinated reads in which all trainers get examples of similar length: a step takes as long as its longest
batch, on whichever trainer that is.
"""

from __future__ import annotations

import tensorflow as tf

from headrace.trainer.input.buckets import Buckets
from headrace.trainer.input.packing import Packed, Packing, plain
from headrace.trainer.input.shuffle import permutation


def in_rounds(
    batches: tf.data.Dataset, packing: Packing, buckets: Buckets, batch_size: int, trainers: int
) -> tf.data.Dataset:
    """An endless stream of packed batches in another order: each `trainers` times `batch_size` examples, from the first
    on, are of one bucket, and so are a round. The rounds of what has arrived come in random order.

    What does not fill a round waits for more of its bucket. Within a round the examples are dealt out by length, so
    that the longest of each trainer's batch are about as long.
    """
    together = batch_size * trainers

    @plain
    def step(waiting: Packed, element: tuple[tf.Tensor, Packed]) -> tuple[Packed, Packed]:
        number, arriving = element
        all_ = packing.joined([waiting, arriving])
        lengths = packing.lengths(all_)
        by_bucket, stays = _filled(buckets.keys(lengths), together)
        rounds = tf.reshape(tf.boolean_mask(by_bucket, ~stays), [-1, together])
        order = tf.argsort(tf.gather(lengths, rounds), axis=1, stable=True)
        rounds = tf.gather(rounds, order, batch_dims=1)
        rounds = tf.transpose(tf.reshape(rounds, [-1, batch_size, trainers]), [0, 2, 1])
        rounds = tf.gather(rounds, permutation(tf.shape(rounds)[0], tf.stack([number, 0])))
        kept = tf.boolean_mask(by_bucket, stays)
        return packing.take(all_, kept), packing.take(all_, tf.reshape(rounds, [-1]))

    leaving = batches.enumerate().scan(packing.none(), step)
    return leaving.filter(plain(lambda *packed: packing.rows(packed) > 0))


def _filled(keys: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """int32: places of the examples by bucket; and of each of those whether its bucket has too few to fill a round with
    it. keys: int64, the examples' buckets.
    """
    order = tf.argsort(keys, stable=True)
    keys = tf.gather(keys, order)
    first = tf.searchsorted(keys, keys, "left")
    count = tf.searchsorted(keys, keys, "right") - first
    return order, tf.range(tf.size(keys)) - first >= count // size * size
