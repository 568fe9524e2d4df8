"""Splits that are read in every epoch, from files or from columns, and shuffled through a pool of examples."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from headrace.trainer.input.batches import Batching, InputSplit
from headrace.trainer.input.mapped import MappedRows
from headrace.trainer.input.packing import Packed, Packing, no_autograph
from headrace.trainer.input.reading import without_autotune
from headrace.trainer.input.shuffle import (
    Stream,
    StreamStart,
    epoch_numbers,
    epoch_seed,
    exact_batches,
    shuffled,
    skip_examples,
)


def open_streamed(batching: Batching, stream: Stream, packing: Packing, start: int = 0) -> InputSplit:
    """Open a split, which has at least one example, after `start` batches, in all epochs together."""
    with tf.device("CPU"):
        counted = tf.Variable(0, dtype=tf.int64, trainable=False)
    size = sum(packing.sizes) if isinstance(packing, MappedRows) else None
    begin = StreamStart()
    if start:
        examples = size or _count_examples(stream(None), packing)
        begin = StreamStart.after(start, batching.batch_size, examples, batching.endless)

    @no_autograph
    def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        seed = epoch_seed(batching.seed, epoch)
        examples = stream(seed if batching.shuffle else None)
        if batching.shuffle:
            arrange = _sort_by_length(batching, packing, seed)
            multiple = batching.batch_size
            examples = shuffled(examples, packing, batching.shuffle, seed, arrange=arrange, multiple=multiple)
        return skip_examples(examples, packing, begin.skipped(epoch)) if begin.examples else examples

    @no_autograph
    def count(*packed: tf.Tensor) -> Packed:
        counted.assign_add(packing.rows(packed))
        return packed

    dataset = _batches(batching, epoch_numbers(begin, batching.endless).flat_map(one_epoch).map(count), packing)
    peek = without_autotune(_batches(batching, stream(None), packing))
    steps = batching.steps_per_epoch or (-(-size // batching.batch_size) if size else None)
    if not batching.endless and not begin.examples and steps is not None:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
    seen = (lambda: int(counted)) if size is None else (lambda: size)
    reading = batching.reading if packing.in_tensors else batching.reading_memory
    finished = reading.finished(dataset)
    return InputSplit(lambda: finished, lambda: peek, steps, size, seen)


def _sort_by_length(batching: Batching, packing: Packing, seed: tf.Tensor) -> Callable[[Packed], Packed] | None:
    """Return a function that groups examples in random order by length; None without buckets."""
    buckets = batching.buckets
    if buckets is None or packing.lengths(packing.empty()) is None:
        return None

    def by_length(packed: Packed) -> Packed:
        return packing.take(packed, buckets.order(packing.lengths(packed), batching.batch_size, seed))

    return by_length


def _batches(batching: Batching, chunks: tf.data.Dataset, packing: Packing) -> tf.data.Dataset:
    """Convert packed batches of any size to batches of the exact size."""
    size = batching.batch_size
    unpack = no_autograph(lambda *packed: batching.batch(packed, packing))
    if not packing.can_be_split:
        return batching.loaded(exact_batches(chunks, packing, size).map(unpack))
    if isinstance(packing, MappedRows):
        chunks = exact_batches(chunks, packing, max(packing.at_once // size, 1) * size)
    return batching.loaded(chunks.map(unpack).rebatch(size))


def _count_examples(batches: tf.data.Dataset, packing: Packing) -> int:
    rows = no_autograph(lambda total, packed: total + packing.rows(packed))
    return int(without_autotune(batches).reduce(tf.constant(0, tf.int64), rows))
