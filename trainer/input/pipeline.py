"""The tf.data input pipeline: interleave → batch → parse → cache → shuffle → batch → prefetch.

pipeline = InputPipeline(feature_spec=spec, label_key="big_tipper", batch_size=1024, cache="memory", shuffle=16384)
train = pipeline.open("train", files)
for features, label in train.dataset:     # one epoch; each iteration has a different order
    ...

Records are batched as they are read and parsed a whole batch at a time; parsing them one by one takes many times as
long. With `cache="memory"` they are read once, before the first epoch, and each batch gathers examples at random from
all of them, so no epoch repeats the batches of another. Otherwise each epoch reads them again, parsed from disk or from
the files themselves, with the files in random order, and shuffles them through a pool.

The order of an epoch depends only on the seed and the number of the epoch. So `open(..., start=n)` returns what an
uninterrupted training would see after n batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from headrace.common.errors import TrainingError
from headrace.trainer.input.buckets import LengthBuckets
from headrace.trainer.input.disk_cache import DiskCache
from headrace.trainer.input.errors import explain_file_errors
from headrace.trainer.input.mapped import MappedRows
from headrace.trainer.input.memory import CacheKind, packed_bytes
from headrace.trainer.input.packing import Column, Feature, Packed, Packing, no_autograph
from headrace.trainer.input.reading import DEFAULT_INPUT_OPTIONS, InputOptions, without_autotune
from headrace.trainer.input.shuffle import (
    MANY,
    StreamStart,
    epoch_numbers,
    epoch_seed,
    exact_batches,
    numbered,
    permutation,
    shuffled,
    skip_examples,
    small_integers,
)
from headrace.trainer.input.transformed_columns import are_columns
from headrace.trainer.input.weights import ExampleWeights

GATHERED, GATHERED_ROWS = 4096, 16384
"""Examples that are fetched from memory at once, if batches are smaller, and rows that are gathered from columns, which
takes a call of Python: of a table of 16 columns it took 0.13 ms of a processor for each 1,024, and 0.23 ms with 4096.
"""
GATHERED_BYTES = 16 << 20
"""Maximum size of those examples."""
GATHERED_AHEAD = 2
"""Prefetched elements of that size."""

InputBatch = tuple[dict[str, Column], tf.Tensor] | tuple[dict[str, Column], tf.Tensor, tf.Tensor]
"""Features by name, the label, and the weights of the examples in the loss if they have some: each [batch, ...]."""
Stream = Callable[[tf.Tensor | None], tf.data.Dataset]
"""Graph code from the seed of an epoch, int64 [2], to its examples in packed batches of any size. The order of larger
units, such as files, follows from the seed; None keeps the order of the files."""


@dataclass(frozen=True)
class InputSplit:
    """One split of the examples, ready for training."""

    make_dataset: Callable[[], tf.data.Dataset]
    """Creates `dataset`, which a training that takes `endless` does not need: its functions take time to trace."""
    make_peek: Callable[[], tf.data.Dataset]
    """Creates `peek`, which most trainings do not need."""
    steps: int | None
    """Batches in an epoch; None if that is not known before the first."""
    size: int | None
    """Examples in the split; None if they are not cached."""
    seen: Callable[[], int]
    """Returns the number of examples read so far, if they are not cached."""
    endless: Callable[[], tf.data.Dataset] | None = None
    """Creates a dataset of the same epochs one after another, each with its smaller last batch. One iterator then
    serves a whole training; starting an iterator takes as long as dozens of small steps."""

    @cached_property
    def dataset(self) -> tf.data.Dataset:
        """`InputBatch` elements: one epoch, whose last batch may be smaller, or endless batches of full size.

        Each iterator is the next epoch, so only training uses it; everything else uses `peek`.
        """
        return self.make_dataset()

    @cached_property
    def peek(self) -> tf.data.Dataset:
        """`InputBatch` elements: the examples in the order of the files, the same each time. Reading it does not
        count as an epoch.
        """
        return self.make_peek()


@dataclass
class ReadSplits:
    """The examples of splits, by name, that several trainings on the same examples read only once."""

    in_memory: dict[str, Packed] = field(default_factory=dict)
    on_disk: dict[str, DiskCache] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class InputPipeline:
    """Settings that turn transformed examples into batches."""

    feature_spec: Mapping[str, Feature]
    """The feature spec of the transformed examples."""
    label_key: str
    """Which of the features is the label; "" with `joined`."""
    batch_size: int
    """Examples in a batch."""
    cache: CacheKind = "memory"
    """Where the parsed examples are cached."""
    shuffle: int = 0
    """Examples in the shuffle's pool; with `cache="memory"`, all of them. 0: keep the order of the files."""
    seed: int = 0
    """The same seed gives the same batches in the same order."""
    steps_per_epoch: int | None = None
    """Steps in an epoch of an endless dataset; None: an epoch is the whole split."""
    buckets: LengthBuckets | None = None
    """If set, and examples are shuffled, those of a batch have similar lengths."""
    reading: InputOptions = DEFAULT_INPUT_OPTIONS
    """How to use the machine."""
    load: Callable[[dict[str, Column]], dict[str, Column]] | None = None
    """Converts a batch of stored features to those that the model takes; None if they are the same."""
    source: Callable[[str, Sequence[str], Packing, Stream], Stream] | None = None
    """Where a split's examples come from, by its name, if not from its files."""
    joined: Callable[[dict[str, Column]], tf.Tensor] | None = None
    """Takes several labels out of the columns of a batch, as one tensor; None for one label."""
    weights: ExampleWeights | None = None
    """The weights of the examples in the loss; None if all count the same."""
    check: Callable[[tf.Tensor], tf.Tensor] = tf.identity
    """Passes labels through, and fails for an invalid one."""
    read: ReadSplits | None = None
    """If set, a split that is opened again is not read again, as far as `cache` holds it."""

    @property
    def endless(self) -> bool:
        """Whether the dataset is endless."""
        return self.steps_per_epoch is not None

    def open(self, name: str, files: Sequence[str], start: int = 0) -> InputSplit:
        """Open a split. Raises TrainingError if it is empty or a file is damaged.

        Args:
            name: The split.
            files: Its TFRecord files of tf.Example, or its files of transformed columns.
            start: Batches that were trained on before, in all epochs together; the dataset starts after them.
        """
        files = sorted(files)
        packing = MappedRows(files, self.feature_spec) if are_columns(files) else Packing(self.feature_spec)
        with explain_file_errors(files, packing):
            stream = self.stream(name, files, packing)
            split = self.open_stream(stream, packing, start, name)
        if split is None:
            raise TrainingError(
                f"the {name} split holds no examples. Give it more hash buckets in `data.splits`, or the pipeline more"
                " data"
            )
        return split

    def stream(self, name: str, files: Sequence[str], packing: Packing) -> Stream:
        """Return the examples of a split; of columns, the numbers of their rows."""
        if isinstance(packing, MappedRows):
            return self.row_stream(packing)
        read = self.file_stream(files, packing)
        return self.source(name, files, packing, read) if self.source else read

    def row_stream(self, rows: MappedRows) -> Stream:
        """Return the numbers of these rows, in the order in which `file_stream` returns examples."""
        files, read_batch, open_files = len(rows.sizes), self.reading.read_batch, self.reading.open_files
        dtype = rows.numbers

        def blocks(order: NDArray[np.int64]) -> NDArray[np.int64]:
            return rows.blocks(order.tolist(), read_batch, open_files)

        def stream(seed: tf.Tensor | None) -> tf.data.Dataset:
            order = tf.range(files, dtype=tf.int64) if seed is None else permutation(files, seed)
            found = tf.ensure_shape(tf.numpy_function(blocks, [order], tf.int64, stateful=False), [None, 2])
            numbers = no_autograph(lambda block: (tf.cast(tf.range(*tf.unstack(block)), dtype)[:, tf.newaxis],))
            return tf.data.Dataset.from_tensor_slices(found).map(numbers)

        return stream

    def file_stream(self, files: Sequence[str], packing: Packing) -> Stream:
        """Return the examples in these files."""
        paths, gzip = tf.constant(files, tf.string), all(file.endswith(".gz") for file in files)

        def stream(seed: tf.Tensor | None) -> tf.data.Dataset:
            order = tf.range(len(files), dtype=tf.int64) if seed is None else permutation(len(files), seed)
            ordered = tf.data.Dataset.from_tensor_slices(tf.gather(paths, order))
            return self.reading.packed(ordered, packing, len(files), gzip)

        return stream

    def open_stream(self, stream: Stream, packing: Packing, start: int = 0, name: str = "") -> InputSplit | None:
        """Return the split of a stream's examples; None if there are none. `start` and `name` are as in `open`."""
        read = self.read or ReadSplits()
        if self.cache == "memory":
            if isinstance(packing, MappedRows) and self.shuffle and not self.buckets and sum(packing.sizes) >= MANY:
                return self._from_memory(None, sum(packing.sizes), packing, start)
            everything = read.in_memory.get(name) or self._everything(stream, packing)
            if everything is None:
                return None
            read.in_memory[name] = everything
            return self._from_memory(everything, int(packing.rows(everything)), packing, start)
        size = sum(packing.sizes) if isinstance(packing, MappedRows) else None
        if self.cache == "disk":
            cache = read.on_disk.get(name) or DiskCache(stream(None), packing)
            read.on_disk[name] = cache
            stream, size = cache.stream, cache.size
        if size == 0 or not list(without_autotune(stream(None).take(1))):
            return None
        return self._from_stream(stream, packing, start, size)

    def _everything(self, stream: Stream, packing: Packing) -> Packed | None:
        """All examples of a stream; None if there are none."""
        batches = list(without_autotune(stream(None)))
        with tf.device("CPU"):
            return packing.concat(batches) if batches else None

    def _from_memory(self, everything: Packed | None, size: int, packing: Packing, start: int) -> InputSplit:
        """A split whose examples are in memory: each batch is a gather.

        everything: the examples; None if they are rows whose order does not matter, and which need no list of numbers.
        """
        steps = self.steps_per_epoch or -(-size // self.batch_size)
        count = self._batches_per_gather(packing, packed_bytes(everything or ()) // size)
        begin, order = self._order_in_memory(everything, size, packing, start, self.batch_size * count)

        @no_autograph
        def gather(which: tf.Tensor) -> InputBatch:
            which = tf.cast(which, tf.int64)
            taken = (which[:, tf.newaxis],) if everything is None else packing.take(everything, which)
            return self._batch(taken, packing)

        reading = self.reading.from_memory(loaded=self.load is not None)

        def whole_epochs() -> tf.data.Dataset:
            indices = epoch_numbers(begin, endless=True).flat_map(order)
            if count == 1:
                return reading.finished(self._loaded(indices.map(gather)))
            batches = indices.map(gather).prefetch(GATHERED_AHEAD).flat_map(split_rows(self.batch_size))
            return reading.finished(self._loaded(batches))

        def one_epoch() -> tf.data.Dataset:
            in_order = not self.shuffle and not begin.examples
            if everything is not None and in_order and packing.in_tensors and packing.can_be_split:
                whole = tf.data.Dataset.from_tensors(self._batch(everything, packing))
                dataset = self._loaded((whole.repeat() if self.endless else whole).rebatch(self.batch_size))
            else:
                indices = epoch_numbers(begin, self.endless).flat_map(order).rebatch(self.batch_size * count)
                dataset = indices.map(gather)
                dataset = dataset.prefetch(GATHERED_AHEAD).rebatch(self.batch_size) if count > 1 else dataset
                dataset = self._loaded(dataset)
            if not self.endless and not begin.examples:
                dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
            return reading.finished(dataset)

        def peek() -> tf.data.Dataset:
            return without_autotune(self._loaded(tf.data.Dataset.range(size).batch(self.batch_size).map(gather)))

        endless = None if self.endless else whole_epochs
        return InputSplit(one_epoch, peek, steps, size, lambda: size, endless)

    def _order_in_memory(
        self, everything: Packed | None, size: int, packing: Packing, start: int, chunk: int
    ) -> tuple[StreamStart, Callable[[tf.Tensor], tf.data.Dataset]]:
        """Where the first epoch begins, and graph code from the number of an epoch to the places of its examples, of
        each gather: integers [chunk].
        """
        with tf.device("CPU"):
            lengths = packing.lengths(everything) if everything and self.buckets and self.shuffle else None
        numbers = small_integers(size)
        # With buckets, an endless epoch drops its incomplete last batch: the next epoch starts with new batches.
        used = size // self.batch_size * self.batch_size if self.endless and lengths is not None else size
        begin = StreamStart.after(start, self.batch_size, used or size, self.endless)

        @no_autograph
        def order(epoch: tf.Tensor) -> tf.data.Dataset:
            seed = epoch_seed(self.seed, epoch)
            if size >= MANY and lengths is None:
                return numbered(size, begin.skipped(epoch), chunk, seed if self.shuffle else None)
            indices = permutation(size, seed, numbers) if self.shuffle else tf.range(size, dtype=numbers)
            if self.buckets and lengths is not None:
                by_length = self.buckets.order(tf.gather(lengths, indices), self.batch_size, seed)
                indices = tf.gather(indices, by_length)[: used or size]
            return split_rows(chunk)(indices[begin.skipped(epoch) :])

        return begin, order

    def _batches_per_gather(self, packing: Packing, bytes_each: int) -> int:
        """Batches to fetch at once: fetching a small one takes less time than the calls around it."""
        if not packing.can_be_split:
            return 1
        most = GATHERED
        if isinstance(packing, MappedRows):
            most, bytes_each = GATHERED_ROWS, packing.bytes_each
        return max(int(min(most, GATHERED_BYTES // max(bytes_each, 1)) // self.batch_size), 1)

    def _from_stream(self, stream: Stream, packing: Packing, start: int, size: int | None) -> InputSplit:
        """A split that is read in each epoch, and shuffled through the pool. size: of the split, if known."""
        with tf.device("CPU"):
            counted = tf.Variable(0, dtype=tf.int64, trainable=False)
        begin = StreamStart()
        if start:
            examples = size or _count_examples(stream(None), packing)
            begin = StreamStart.after(start, self.batch_size, examples, self.endless)

        @no_autograph
        def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            seed = epoch_seed(self.seed, epoch)
            examples = stream(seed if self.shuffle else None)
            if self.shuffle:
                arrange = self._sort_by_length(packing, seed)
                examples = shuffled(examples, packing, self.shuffle, seed, arrange=arrange, multiple=self.batch_size)
            return skip_examples(examples, packing, begin.skipped(epoch)) if begin.examples else examples

        @no_autograph
        def count(*packed: tf.Tensor) -> Packed:
            counted.assign_add(packing.rows(packed))
            return packed

        dataset = self._batches(epoch_numbers(begin, self.endless).flat_map(one_epoch).map(count), packing)
        peek = without_autotune(self._batches(stream(None), packing))
        steps = self.steps_per_epoch or (-(-size // self.batch_size) if size else None)
        if not self.endless and not begin.examples and steps is not None:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
        seen = (lambda: int(counted)) if size is None else (lambda: size)
        reading = self.reading if packing.in_tensors else self.reading.from_memory(loaded=self.load is not None)
        finished = reading.finished(dataset)
        return InputSplit(lambda: finished, lambda: peek, steps, size, seen)

    def _sort_by_length(self, packing: Packing, seed: tf.Tensor) -> Callable[[Packed], Packed] | None:
        """Return a function that groups examples in random order by length; None without buckets."""
        buckets = self.buckets
        if buckets is None or packing.lengths(packing.empty()) is None:
            return None

        def by_length(packed: Packed) -> Packed:
            return packing.take(packed, buckets.order(packing.lengths(packed), self.batch_size, seed))

        return by_length

    def _batches(self, chunks: tf.data.Dataset, packing: Packing) -> tf.data.Dataset:
        """Convert packed batches of any size to batches of the exact size."""
        unpack = no_autograph(lambda *packed: self._batch(packed, packing))
        if not packing.can_be_split:
            return self._loaded(exact_batches(chunks, packing, self.batch_size).map(unpack))
        if not packing.in_tensors:
            chunks = exact_batches(chunks, packing, self.batch_size * self._batches_per_gather(packing, 0))
        return self._loaded(chunks.map(unpack).rebatch(self.batch_size))

    def _loaded(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Convert stored features to those that the model takes."""
        load = self.load
        if load is None:
            return batches
        both = no_autograph(lambda features, *targets: (load(features), *targets))
        return batches.map(both, num_parallel_calls=self.reading.calls, deterministic=True)

    def _batch(self, packed: Packed, packing: Packing) -> InputBatch:
        columns = packing.unpack(packed)
        label = self.check(self.joined(columns) if self.joined else columns.pop(self.label_key))
        return (columns, label) if self.weights is None else (columns, label, self.weights.take(columns, label))


def split_rows(size: int) -> Callable[..., tf.data.Dataset]:
    """Return a function that splits tensors into chunks of `size` rows, the last with what is left."""
    return no_autograph(
        lambda *parts: tf.data.Dataset.from_tensors(parts if len(parts) > 1 else parts[0]).rebatch(size)
    )


def _count_examples(batches: tf.data.Dataset, packing: Packing) -> int:
    rows = no_autograph(lambda total, packed: total + packing.rows(packed))
    return int(without_autotune(batches).reduce(tf.constant(0, tf.int64), rows))
