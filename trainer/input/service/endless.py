"""What the workers of a tf.data service run if each reads everything endlessly: `sharding: off`.

With coordinated reads, the workers also make the batches, in rounds of similar length: a step takes as long as its
longest batch, whichever trainer has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from headrace.trainer.input.buckets import LengthBuckets
from headrace.trainer.input.packing import Packed, Packing, no_autograph
from headrace.trainer.input.reading import DEFAULT_INPUT_OPTIONS, READ_BUFFER, InputOptions
from headrace.trainer.input.shuffle import exact_batches, permutation, shuffle_by_seed, shuffled

BUFFER = 16
"""Read batches in the shuffle buffer."""


def endless(files: Sequence[str], packing: Packing, reading: InputOptions = DEFAULT_INPUT_OPTIONS) -> tf.data.Dataset:
    """Return packed batches of about `read_batch`, pass after pass, each in an order of its own for each worker."""
    paths, compression = tf.constant(files, tf.string), "GZIP" if all(file.endswith(".gz") for file in files) else ""

    @no_autograph
    def one_pass(_: tf.Tensor) -> tf.data.Dataset:
        # All workers run the same graph, so the time is what makes their seeds differ.
        moment = tf.cast(tf.timestamp() * 1e6, tf.int64)
        order = tf.random.experimental.stateless_shuffle(paths, seed=tf.stack([moment, moment // 997]))
        read = no_autograph(
            lambda path: tf.data.TFRecordDataset(path, compression, READ_BUFFER).batch(reading.read_batch)
        )
        records = tf.data.Dataset.from_tensor_slices(order).interleave(
            read, cycle_length=min(reading.open_files, len(files)), num_parallel_calls=tf.data.AUTOTUNE
        )
        return shuffle_by_seed(records, BUFFER, moment)

    passes = tf.data.Dataset.from_tensors(0).repeat().flat_map(one_pass)
    return passes.map(no_autograph(packing.parse), num_parallel_calls=tf.data.AUTOTUNE)


def endless_batches(
    batches: tf.data.Dataset,
    packing: Packing,
    buffer: int,
    batch_size: int,
    buckets: LengthBuckets | None,
    trainers: int,
) -> tf.data.Dataset:
    """Turn the output of `endless` into finished batches.

    Args:
        batches: Packed batches of any size.
        packing: Their layout.
        buffer: Examples in the shuffle's pool; 0: no shuffle.
        batch_size: Examples in a finished batch.
        buckets: If set, each round of one batch per trainer is from one bucket.
        trainers: Number of trainers.
    """
    if buffer:  # the seed is the same for all workers, but what they shuffle is not
        batches = shuffled(batches, packing, buffer, tf.zeros([2], tf.int64), multiple=batch_size)
    if buckets and packing.lists:
        batches = coordinated_rounds(batches, packing, buckets, batch_size, trainers)
    return exact_batches(batches, packing, batch_size)


def coordinated_rounds(
    batches: tf.data.Dataset, packing: Packing, buckets: LengthBuckets, batch_size: int, trainers: int
) -> tf.data.Dataset:
    """Reorder an endless stream so that each round of `trainers` times `batch_size` examples is from one bucket.

    Examples that do not fill a round wait for more from their bucket. The rounds of what has arrived come in random
    order. Within a round the examples are distributed by length, so that the longest of each trainer's batch are of
    about the same length.
    """
    round_size = batch_size * trainers

    @no_autograph
    def step(waiting: Packed, element: tuple[tf.Tensor, Packed]) -> tuple[Packed, Packed]:
        number, arriving = element
        examples = packing.concat([waiting, arriving])
        lengths = packing.lengths(examples)
        by_bucket, stays = _fill_rounds(buckets.keys(lengths), round_size)
        rounds = tf.reshape(tf.boolean_mask(by_bucket, ~stays), [-1, round_size])
        order = tf.argsort(tf.gather(lengths, rounds), axis=1, stable=True)
        rounds = tf.gather(rounds, order, batch_dims=1)
        # Sorted by length, example i of a round goes to trainer i modulo `trainers`.
        rounds = tf.transpose(tf.reshape(rounds, [-1, batch_size, trainers]), [0, 2, 1])
        rounds = tf.gather(rounds, permutation(tf.shape(rounds)[0], tf.stack([number, 0])))
        stay = tf.boolean_mask(by_bucket, stays)
        return packing.take(examples, stay), packing.take(examples, tf.reshape(rounds, [-1]))

    leaving = batches.enumerate().scan(packing.empty(), step)
    return leaving.filter(no_autograph(lambda *packed: packing.rows(packed) > 0))


def _fill_rounds(keys: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Sort examples by bucket, and mark those that do not fill a round.

    Args:
        keys: int64 [examples]: their buckets.
        size: Examples in a round.

    Returns:
        int32 [examples]: their indices by bucket; and bool [examples]: whether there are too few for another round.
    """
    order = tf.argsort(keys, stable=True)
    keys = tf.gather(keys, order)
    first = tf.searchsorted(keys, keys, "left")
    count = tf.searchsorted(keys, keys, "right") - first
    return order, tf.range(tf.size(keys)) - first >= count // size * size
