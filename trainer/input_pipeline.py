"""The tf.data input pipeline: interleave → batch → parse → cache → shuffle → batch → prefetch.

pipeline = InputPipeline(feature_spec, "big_tipper", batch_size=1024, in_memory=True, shuffle=16384)
train = pipeline.open("train", files)
for features, label in train.dataset:     # one epoch, in an order of its own each time
    ...

Records are batched as they are read and parsed a whole batch at a time; parsing one by one takes many times as long.
With `in_memory` they are read once, before the first epoch, and each batch is a gather at random places of all of them:
no epoch repeats the batches of another. Otherwise they are read in every epoch, the files in random order, and shuffled
through a pool.

The order of an epoch follows from the seed and the number of the epoch alone. So `open(..., start=n)` gives what an
uninterrupted training would see after n batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from configs.errors import TrainingError
from trainer.epochs import Start, epochs
from trainer.packing import Column, Feature, Packed, Packing, plain
from trainer.shuffle import draw, exact, mixed, permutation, without_first

READ_BATCH = 1024
"""Records that are read and parsed at a time."""
READ_BUFFER = 8 << 20
"""Bytes of a file that are read at a time."""
OPEN_FILES = 16
"""Files that are read at the same time, at most."""

Batch = tuple[dict[str, Column], tf.Tensor]
"""Features by name, and the label: each [batch] and more."""
Stream = Callable[[tf.Tensor], tf.data.Dataset]
"""From the number of an epoch, int64, to its examples in packed batches of any size: graph code."""


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
    """Examples in the split; None where they are not kept in memory."""
    seen: Callable[[], int]
    """Examples that have gone through until now, where they are not kept in memory."""


@dataclass(frozen=True)
class InputPipeline:
    """How transformed examples become batches."""

    feature_spec: Mapping[str, Feature]
    """Of the transformed examples."""
    label_key: str
    """Which of them is the label."""
    batch_size: int
    """Examples in a batch."""
    in_memory: bool
    """Whether the parsed examples are kept."""
    shuffle: int = 0
    """Examples in the shuffle's pool; all of them with `in_memory`. 0: in the order of the files."""
    seed: int = 0
    """The same seed gives the same batches in the same order."""
    steps_per_epoch: int | None = None
    """Steps in an epoch of an endless dataset; None: an epoch is the whole split."""

    @property
    def endless(self) -> bool:
        """Whether epochs follow each other without an end."""
        return self.steps_per_epoch is not None

    def open(self, name: str, files: Sequence[str], start: int = 0) -> Split:
        """The split of that name, in these TFRecord files of tf.Example. Raises TrainingError if it is empty.

        start: batches that were trained on before, in all epochs together; the dataset goes on behind them.
        """
        packing = Packing(self.feature_spec)
        files = sorted(files)
        split = self._from_memory(files, packing, start) if self.in_memory else self._from_files(files, packing, start)
        if split is None:
            raise TrainingError(
                f"the {name} split holds no examples. Give it more hash buckets in `data.splits`, or the pipeline more"
                " data"
            )
        return split

    def read(self, paths: tf.data.Dataset, packing: Packing, files: int, gzip: bool) -> tf.data.Dataset:
        """Parsed examples of so many files in packed batches of about READ_BATCH."""
        compression = "GZIP" if gzip else ""
        records = paths.interleave(
            plain(lambda path: tf.data.TFRecordDataset(path, compression, READ_BUFFER).batch(READ_BATCH)),
            cycle_length=max(min(OPEN_FILES, files), 1),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        return records.map(plain(packing.parse), num_parallel_calls=tf.data.AUTOTUNE)

    def _stream(self, files: Sequence[str], packing: Packing) -> Stream:
        """The examples in the files, which are read in an order of the epoch's own if there is to be a shuffle."""
        paths, gzip = tf.constant(files, tf.string), all(file.endswith(".gz") for file in files)

        def stream(epoch: tf.Tensor) -> tf.data.Dataset:
            order = permutation(len(files), draw(self.seed, epoch)) if self.shuffle else tf.range(len(files))
            places = tf.data.Dataset.from_tensor_slices(tf.gather(paths, order))
            return self.read(places, packing, len(files), gzip)

        return stream

    def _from_memory(self, files: Sequence[str], packing: Packing, start: int) -> Split | None:
        with tf.device("CPU"):
            unshuffled = self._stream(files, packing)(tf.constant(-1, tf.int64))
            batches = list(unshuffled)
            if not batches:
                return None
            everything = packing.joined(batches)
        size = int(packing.rows(everything))
        begin = Start.after(start, self.batch_size, size, self.endless)

        @plain
        def order(epoch: tf.Tensor) -> tf.Tensor:
            places = permutation(size, draw(self.seed, epoch)) if self.shuffle else tf.range(size, dtype=tf.int64)
            return places[begin.passed(epoch) :]

        def batches_at(places: tf.data.Dataset) -> tf.data.Dataset:
            picked = places.rebatch(self.batch_size).map(plain(lambda which: packing.take(everything, which)))
            return picked.map(plain(lambda *packed: self._batch(packed, packing)))

        steps = self.steps_per_epoch or -(-size // self.batch_size)
        batches = batches_at(epochs(begin, self.endless).map(order))
        if not self.endless and not begin.examples:
            batches = batches.apply(tf.data.experimental.assert_cardinality(steps))
        peek = batches_at(tf.data.Dataset.from_tensors(tf.range(size, dtype=tf.int64)))
        return Split(batches.prefetch(tf.data.AUTOTUNE), peek, steps, size, lambda: size)

    def _from_files(self, files: Sequence[str], packing: Packing, start: int) -> Split | None:
        stream = self._stream(files, packing)
        unshuffled = stream(tf.constant(-1, tf.int64))
        if not list(unshuffled.take(1)):
            return None
        size = (
            int(unshuffled.reduce(tf.constant(0, tf.int64), plain(lambda n, *packed: n + packing.rows(packed))))
            if start
            else 0
        )
        begin = Start.after(start, self.batch_size, size, self.endless) if start else Start()
        peek = exact(unshuffled, packing, self.batch_size).map(plain(lambda *packed: self._batch(packed, packing)))
        return self._from_stream(stream, packing, begin, peek)

    def _from_stream(self, stream: Stream, packing: Packing, begin: Start, peek: tf.data.Dataset) -> Split:
        """Epoch by epoch through the pool."""
        with tf.device("CPU"):
            counted = tf.Variable(0, dtype=tf.int64, trainable=False)

        @plain
        def one(epoch: tf.Tensor) -> tf.data.Dataset:
            examples = stream(epoch)
            if self.shuffle:
                examples = mixed(examples, packing, self.shuffle, draw(self.seed, epoch))
            return without_first(examples, packing, begin.passed(epoch)) if begin.examples else examples

        def count(*packed: tf.Tensor) -> Batch:
            counted.assign_add(packing.rows(packed))
            return self._batch(packed, packing)

        batches = exact(epochs(begin, self.endless).flat_map(one), packing, self.batch_size).map(plain(count))
        return Split(batches.prefetch(tf.data.AUTOTUNE), peek, self.steps_per_epoch, None, lambda: int(counted))

    def _batch(self, packed: Packed, packing: Packing) -> Batch:
        columns = packing.unpack(packed)
        return {name: column for name, column in columns.items() if name != self.label_key}, columns[self.label_key]
