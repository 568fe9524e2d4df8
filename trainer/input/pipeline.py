"""The tf.data input pipeline: interleave → batch → parse → cache → shuffle → batch → prefetch.

pipeline = InputPipeline(feature_spec=spec, label_key="big_tipper", batch_size=1024, cache="memory", shuffle=16384)
train = pipeline.open("train", files)
for features, label in train.dataset:     # one epoch, in an order of its own each time
    ...

Records are batched as they are read and parsed a whole batch at a time; parsing one by one takes many times as long.
With `cache="memory"` they are read once, before the first epoch, and each batch is a gather at random places of all of
them: no epoch repeats the batches of another. Otherwise each epoch reads them, parsed ones from disk or the files
themselves, the files in random order, and shuffles them through a pool.

The order of an epoch follows from the seed and the number of the epoch alone. So `open(..., start=n)` gives what an
uninterrupted training would see after n batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from headrace.configs.errors import TrainingError
from headrace.trainer.input.buckets import Buckets
from headrace.trainer.input.disk_cache import DiskCache
from headrace.trainer.input.epochs import Start, epochs
from headrace.trainer.input.errors import told_by_file
from headrace.trainer.input.memory import Where, taken
from headrace.trainer.input.packing import Column, Feature, Packed, Packing, plain
from headrace.trainer.input.reading import PLAIN_READING, Reading, untuned
from headrace.trainer.input.shuffle import draw, exact, mixed, permutation, without_first

GATHERED = 4096
"""Examples that are fetched from memory at once, if their batches are smaller."""
GATHERED_BYTES = 16 << 20
"""What they may take, at most."""
GATHERED_AHEAD = 2
"""How many times as many are fetched ahead."""

Batch = tuple[dict[str, Column], tf.Tensor]
"""Features by name, and the label: each [batch] and more."""
Stream = Callable[[tf.Tensor | None], tf.data.Dataset]
"""From what an epoch's order follows from, int64 [2], to its examples in packed batches of any size, the larger pieces
in that order; None: as the files have them. Graph code."""


@dataclass(frozen=True)
class Split:
    """One split of the examples, ready to be trained on."""

    dataset: tf.data.Dataset
    """Of `Batch`: one epoch, whose last batch may be smaller; or endless, in batches of the full size. Each iterator is
    the next epoch: only what trains takes it, all else takes `peek`."""
    peek: tf.data.Dataset
    """Of `Batch`: the examples in the order of the files, the same each time, without counting as an epoch."""
    steps: int | None
    """Batches in an epoch; None where that is not known before the first."""
    size: int | None
    """Examples in the split; None where they are not kept."""
    seen: Callable[[], int]
    """Examples that have gone through until now, where they are not kept."""
    endless: Callable[[], tf.data.Dataset] | None = None
    """Makes a dataset of the same epochs one after another, each with its smaller last batch. One iterator then serves
    a whole training; a new one for each epoch takes as long to begin as dozens of small steps."""


@dataclass(frozen=True, kw_only=True)
class InputPipeline:
    """How transformed examples become batches."""

    feature_spec: Mapping[str, Feature]
    """Of the transformed examples."""
    label_key: str
    """Which of them is the label."""
    batch_size: int
    """Examples in a batch."""
    cache: Where = "memory"
    """Where the parsed examples are kept."""
    shuffle: int = 0
    """Examples in the shuffle's pool; all of them with `cache="memory"`. 0: in the order of the files."""
    seed: int = 0
    """The same seed gives the same batches in the same order."""
    steps_per_epoch: int | None = None
    """Steps in an epoch of an endless dataset; None: an epoch is the whole split."""
    buckets: Buckets | None = None
    """Whether a batch has examples of similar length; only where there is a shuffle."""
    reading: Reading = PLAIN_READING
    """How the machine is used."""
    load: Callable[[dict[str, Column]], dict[str, Column]] | None = None
    """From the features as they are written to those that the model takes, a batch at a time; None: they are those."""
    source: Callable[[str, Sequence[str], Packing, Stream], Stream] | None = None
    """Where a split's examples come from, by its name, if not from its files."""
    check: Callable[[tf.Tensor], tf.Tensor] = tf.identity
    """From labels to the same labels; fails where one is none."""

    @property
    def endless(self) -> bool:
        """Whether epochs follow each other without an end."""
        return self.steps_per_epoch is not None

    def open(self, name: str, files: Sequence[str], start: int = 0) -> Split:
        """The split of that name, in these TFRecord files of tf.Example.

        start: batches that were trained on before, in all epochs together; the dataset goes on behind them.
        Raises TrainingError if the split is empty, or a file damaged.
        """
        packing, files = Packing(self.feature_spec), sorted(files)
        stream = self.from_files(files, packing)
        with told_by_file(files, packing):
            stream = self.source(name, files, packing, stream) if self.source else stream
            split = self.over(stream, packing, start)
        if split is None:
            raise TrainingError(
                f"the {name} split holds no examples. Give it more hash buckets in `data.splits`, or the pipeline more"
                " data"
            )
        return split

    def from_files(self, files: Sequence[str], packing: Packing) -> Stream:
        """The examples in these files."""
        paths, gzip = tf.constant(files, tf.string), all(file.endswith(".gz") for file in files)

        def stream(seed: tf.Tensor | None) -> tf.data.Dataset:
            order = tf.range(len(files), dtype=tf.int64) if seed is None else permutation(len(files), seed)
            places = tf.data.Dataset.from_tensor_slices(tf.gather(paths, order))
            return self.reading.packed(places, packing, len(files), gzip)

        return stream

    def over(self, stream: Stream, packing: Packing, start: int = 0) -> Split | None:
        """The split of the examples that a stream gives; None if there are none. `start` is as in `open`."""
        if self.cache == "memory":
            batches = list(untuned(stream(None)))
            return self._of_tensors(batches, packing, start) if batches else None
        size = None
        if self.cache == "disk":
            kept = DiskCache(stream(None), packing)
            stream, size = kept.stream, kept.size
        if size == 0 or not list(untuned(stream(None).take(1))):
            return None
        return self._of_stream(stream, packing, start, size)

    def _of_tensors(self, batches: list[Packed], packing: Packing, start: int) -> Split:
        """From examples in memory."""
        with tf.device("CPU"):
            everything = packing.joined(batches)
            lengths = packing.lengths(everything) if self.buckets and self.shuffle else None
        size = int(packing.rows(everything))
        # by length, an epoch ends with its last whole batch where another follows: the next begins with batches anew
        used = size // self.batch_size * self.batch_size if self.endless and lengths is not None else size
        begin = Start.after(start, self.batch_size, used or size, self.endless)

        @plain
        def order(epoch: tf.Tensor) -> tf.Tensor:
            seed = draw(self.seed, epoch)
            places = permutation(size, seed) if self.shuffle else tf.range(size, dtype=tf.int64)
            if self.buckets and lengths is not None:
                by_length = self.buckets.order(tf.gather(lengths, places), self.batch_size, seed)
                places = tf.gather(places, by_length)[: used or size]
            return places[begin.passed(epoch) :]

        @plain
        def gather(which: tf.Tensor) -> Batch:
            return self._batch(packing.take(everything, which), packing)

        steps = self.steps_per_epoch or -(-size // self.batch_size)
        together = self._together(everything, packing)
        reading = self.reading.from_memory(loaded=self.load is not None)

        def whole_epochs() -> tf.data.Dataset:
            places = epochs(begin, endless=True).map(order).flat_map(pieces(self.batch_size * together))
            if together == 1:
                return reading.finished(self._loaded(places.map(gather)))
            batches = places.map(gather).prefetch(GATHERED_AHEAD).flat_map(pieces(self.batch_size))
            return reading.finished(self._loaded(batches))

        if not self.shuffle and not begin.examples and not packing.varying:
            dataset = tf.data.Dataset.from_tensors(self._batch(everything, packing))
            dataset = self._loaded((dataset.repeat() if self.endless else dataset).rebatch(self.batch_size))
        else:
            dataset = epochs(begin, self.endless).map(order).rebatch(self.batch_size * together).map(gather)
            dataset = dataset.prefetch(GATHERED_AHEAD).rebatch(self.batch_size) if together > 1 else dataset
            dataset = self._loaded(dataset)
        if not self.endless and not begin.examples:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
        peek = untuned(self._loaded(tf.data.Dataset.range(size).batch(self.batch_size).map(gather)))
        endless = None if self.endless else whole_epochs
        return Split(reading.finished(dataset), peek, steps, size, lambda: size, endless)

    def _together(self, everything: Packed, packing: Packing) -> int:
        """Batches that are fetched at once: small ones take less time to fetch than the calls that it needs."""
        if packing.varying:
            return 1
        bytes_each = taken(everything) / int(packing.rows(everything))
        return max(int(min(GATHERED, GATHERED_BYTES / max(bytes_each, 1)) // self.batch_size), 1)

    def _of_stream(self, stream: Stream, packing: Packing, start: int, size: int | None) -> Split:
        """Epoch by epoch through the pool; size: of the split, where it is known."""
        with tf.device("CPU"):
            counted = tf.Variable(0, dtype=tf.int64, trainable=False)
        begin = Start()
        if start:
            begin = Start.after(start, self.batch_size, size or _count(stream(None), packing), self.endless)

        @plain
        def one(epoch: tf.Tensor) -> tf.data.Dataset:
            seed = draw(self.seed, epoch)
            examples = stream(seed if self.shuffle else None)
            if self.shuffle:
                arrange = self._sorted(packing, seed)
                examples = mixed(examples, packing, self.shuffle, seed, arrange=arrange, piece=self.batch_size)
            return without_first(examples, packing, begin.passed(epoch)) if begin.examples else examples

        @plain
        def count(*packed: tf.Tensor) -> Packed:
            counted.assign_add(packing.rows(packed))
            return packed

        dataset = self._batches(epochs(begin, self.endless).flat_map(one).map(count), packing)
        peek = untuned(self._batches(stream(None), packing))
        steps = self.steps_per_epoch or (-(-size // self.batch_size) if size else None)
        if not self.endless and not begin.examples and steps is not None:
            dataset = dataset.apply(tf.data.experimental.assert_cardinality(steps))
        seen = (lambda: int(counted)) if size is None else (lambda: size)
        return Split(self.reading.finished(dataset), peek, steps, size, seen)

    def _sorted(self, packing: Packing, seed: tf.Tensor) -> Callable[[Packed], Packed] | None:
        """What puts examples in a random order into one by length."""
        buckets = self.buckets
        if buckets is None or not packing.varying:
            return None

        def by_length(packed: Packed) -> Packed:
            return packing.take(packed, buckets.order(packing.lengths(packed), self.batch_size, seed))

        return by_length

    def _batches(self, chunks: tf.data.Dataset, packing: Packing) -> tf.data.Dataset:
        """Packed batches of any size as batches of the exact one."""
        unpack = plain(lambda *packed: self._batch(packed, packing))
        if packing.varying:
            return self._loaded(exact(chunks, packing, self.batch_size).map(unpack))
        return self._loaded(chunks.map(unpack).rebatch(self.batch_size))

    def _loaded(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """With the features as the model takes them."""
        load = self.load
        if load is None:
            return batches
        both = plain(lambda features, label: (load(features), label))
        return batches.map(both, num_parallel_calls=self.reading.calls, deterministic=True)

    def _batch(self, packed: Packed, packing: Packing) -> Batch:
        columns = packing.unpack(packed)
        label = columns.pop(self.label_key)
        return columns, self.check(label)


def pieces(size: int) -> Callable[..., tf.data.Dataset]:
    """What cuts tensors of many rows into some of that many, the last with what is left."""
    return plain(lambda *parts: tf.data.Dataset.from_tensors(parts if len(parts) > 1 else parts[0]).rebatch(size))


def _count(batches: tf.data.Dataset, packing: Packing) -> int:
    rows = plain(lambda total, packed: total + packing.rows(packed))
    return int(untuned(batches).reduce(tf.constant(0, tf.int64), rows))
