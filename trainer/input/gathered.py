"""Splits whose examples are in memory, or mapped into it: each batch is a gather at random places of all of them.

split = open_gathered(batching, PackedExamples(packing, everything))      # values in tensors
split = open_gathered(batching, MappedExamples(rows, order))              # values in Arrow columns

No epoch repeats the batches of another. Small batches are gathered several at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import tensorflow as tf

from headrace.trainer.input.batches import Batching, InputBatch, InputSplit
from headrace.trainer.input.mapped import GATHERED_BYTES, BlockOrder, MappedRows
from headrace.trainer.input.memory import packed_bytes
from headrace.trainer.input.packing import Packed, Packing, no_autograph
from headrace.trainer.input.reading import without_autotune
from headrace.trainer.input.shuffle import (
    MANY,
    StreamStart,
    epoch_numbers,
    epoch_seed,
    numbered,
    permutation,
    small_integers,
)

GATHERED = 16384
"""Examples that are fetched from memory at once, if batches are smaller. To cut batches from them copies nothing."""
GATHERED_AHEAD = 2
"""Least number of prefetched elements of that size."""


@dataclass(frozen=True)
class PackedExamples:
    """All examples of a split in tensors."""

    packing: Packing
    packed: Packed

    @cached_property
    def size(self) -> int:
        """The number of examples; at least one."""
        return int(self.packing.rows(self.packed))

    @property
    def at_once(self) -> int:
        """How many examples to gather at once."""
        return min(GATHERED, GATHERED_BYTES // max(packed_bytes(self.packed) // self.size, 1))

    @property
    def whole(self) -> Packed | None:
        """All examples, if batches can be cut from them without a gather."""
        return self.packed if self.packing.can_be_split else None

    def take(self, which: tf.Tensor) -> Packed:
        """Return the examples at these places, integers [examples]."""
        return self.packing.take(self.packed, tf.cast(which, tf.int64))

    def lengths(self) -> tf.Tensor | None:
        """As `Packing.lengths`, of all examples."""
        return self.packing.lengths(self.packed)


@dataclass(frozen=True)
class MappedExamples:
    """All examples of a split in columns."""

    packing: MappedRows
    order: tf.Tensor | BlockOrder | None
    """The numbers of their rows; None if these are the places, which need no list of numbers."""

    whole = None
    """Values have to be gathered."""

    @property
    def size(self) -> int:
        """The number of examples; at least one."""
        return sum(self.packing.sizes)

    @property
    def at_once(self) -> int:
        """How many examples to gather at once."""
        return self.packing.at_once

    def take(self, which: tf.Tensor) -> Packed:
        """Return the examples at these places, integers [examples]."""
        rows = tf.cast(which, tf.int64)
        if self.order is not None:
            rows = self.order.rows(rows) if isinstance(self.order, BlockOrder) else tf.gather(self.order, rows)
        return (rows[:, tf.newaxis],)

    def lengths(self) -> tf.Tensor | None:
        """As `Packing.lengths`, of all examples."""
        return self.packing.lengths((self.order[:, tf.newaxis],)) if isinstance(self.order, tf.Tensor) else None


ExamplesInMemory = PackedExamples | MappedExamples
_Order = Callable[[tf.Tensor], tf.data.Dataset]
"""Graph code from the number of an epoch to the places of its examples, integers of each gather."""


def open_gathered(batching: Batching, examples: ExamplesInMemory, start: int = 0) -> InputSplit:
    """Open a split after `start` batches, in all epochs together."""
    size, batch_size = examples.size, batching.batch_size
    steps = batching.steps_per_epoch or -(-size // batch_size)
    at_once = max(examples.at_once // batch_size, 1) if examples.packing.can_be_split else 1
    begin, order = _order(batching, examples, start, batch_size * at_once)
    reading = batching.reading_memory
    cut_ahead = at_once > 1 and batching.load is None and reading.prefetch != tf.data.AUTOTUNE
    ahead = max(-(-reading.prefetch // at_once), GATHERED_AHEAD)

    @no_autograph
    def gather(which: tf.Tensor) -> InputBatch:
        return batching.batch(examples.take(which), examples.packing)

    def whole_epochs() -> tf.data.Dataset:
        batches = epoch_numbers(begin, endless=True).flat_map(order).map(gather)
        if at_once > 1:
            batches = batches.prefetch(ahead).flat_map(split_rows(batch_size))
        return reading.finished(batching.loaded(batches), is_ahead=cut_ahead)

    def one_epoch() -> tf.data.Dataset:
        if examples.whole is not None and not batching.shuffle and not begin.examples:
            whole = tf.data.Dataset.from_tensors(batching.batch(examples.whole, examples.packing))
            batches = (whole.repeat() if batching.endless else whole).rebatch(batch_size)
        else:
            indices = epoch_numbers(begin, batching.endless).flat_map(order).rebatch(batch_size * at_once)
            batches = indices.map(gather)
            batches = batches.prefetch(ahead).rebatch(batch_size) if at_once > 1 else batches
        dataset = batching.loaded(batches)
        if not batching.endless and not begin.examples:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
        return reading.finished(dataset, is_ahead=cut_ahead)

    def peek() -> tf.data.Dataset:
        return without_autotune(batching.loaded(tf.data.Dataset.range(size).batch(batch_size).map(gather)))

    endless = None if batching.endless else whole_epochs
    return InputSplit(one_epoch, peek, steps, size, lambda: size, endless)


def _order(batching: Batching, examples: ExamplesInMemory, start: int, chunk: int) -> tuple[StreamStart, _Order]:
    """Where the first epoch begins, and the order of each. chunk: the places of a gather."""
    size, batch_size, buckets = examples.size, batching.batch_size, batching.buckets
    with tf.device("CPU"):
        lengths = examples.lengths() if buckets and batching.shuffle else None
    numbers = small_integers(size)
    # With buckets, an endless epoch drops its incomplete last batch: the next epoch starts with new batches.
    used = size // batch_size * batch_size if batching.endless and lengths is not None else size
    begin = StreamStart.after(start, batch_size, used or size, batching.endless)

    @no_autograph
    def order(epoch: tf.Tensor) -> tf.data.Dataset:
        seed = epoch_seed(batching.seed, epoch)
        if lengths is None and (size >= MANY or not batching.shuffle):
            return numbered(size, begin.skipped(epoch), chunk, seed if batching.shuffle else None)
        indices = permutation(size, seed, numbers) if batching.shuffle else tf.range(size, dtype=numbers)
        if buckets and lengths is not None:
            by_length = buckets.order(tf.gather(lengths, indices), batch_size, seed)
            indices = tf.gather(indices, by_length)[: used or size]
        return split_rows(chunk)(indices[begin.skipped(epoch) :])

    return begin, order


def split_rows(size: int) -> Callable[..., tf.data.Dataset]:
    """Return a function that splits tensors into chunks of `size` rows, the last with what is left."""
    return no_autograph(
        lambda *parts: tf.data.Dataset.from_tensors(parts if len(parts) > 1 else parts[0]).rebatch(size)
    )
