"""What the workers of a tf.data service run where each reads everything, without an end: `sharding: off`."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from headrace.trainer.input.buckets import Buckets
from headrace.trainer.input.packing import Packing, plain
from headrace.trainer.input.reading import PLAIN_READING, READ_BUFFER, Reading
from headrace.trainer.input.shuffle import by_seed, exact, mixed
from headrace.trainer.service.rounds import in_rounds

NEAR = 16
"""Read batches that change places with each other."""


def endless(files: Sequence[str], packing: Packing, reading: Reading = PLAIN_READING) -> tf.data.Dataset:
    """Packed batches of about `read_batch`, pass after pass, in an order that is each worker's own each time."""
    paths, compression = tf.constant(files, tf.string), "GZIP" if all(file.endswith(".gz") for file in files) else ""

    @plain
    def one_pass(_: tf.Tensor) -> tf.data.Dataset:
        moment = tf.cast(tf.timestamp() * 1e6, tf.int64)  # the seed of a worker's own: all run the same graph
        order = tf.random.experimental.stateless_shuffle(paths, seed=tf.stack([moment, moment // 997]))
        records = tf.data.Dataset.from_tensor_slices(order).interleave(
            plain(lambda path: tf.data.TFRecordDataset(path, compression, READ_BUFFER).batch(reading.read_batch)),
            cycle_length=min(reading.open_files, len(files)),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return by_seed(records, NEAR, moment)

    passes = tf.data.Dataset.from_tensors(0).repeat().flat_map(one_pass)
    return passes.map(plain(packing.parse), num_parallel_calls=tf.data.AUTOTUNE)


def endless_batches(  # noqa: PLR0913, PLR0917
    batches: tf.data.Dataset, packing: Packing, buffer: int, batch_size: int, buckets: Buckets | None, trainers: int
) -> tf.data.Dataset:
    """What `endless` gives as finished batches, shuffled through a pool of `buffer` examples.

    buckets: of which each round of one batch for each of so many trainers has one.
    """
    if buffer:  # the seed is the same in all workers, and what it mixes is not
        batches = mixed(batches, packing, buffer, tf.zeros([2], tf.int64), piece=batch_size)
    if buckets and packing.varying:
        batches = in_rounds(batches, packing, buckets, batch_size, trainers)
    return exact(batches, packing, batch_size)
