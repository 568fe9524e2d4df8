"""The tf.data input pipeline: interleave → batch → parse → cache → shuffle → batch → prefetch.

pipeline = InputPipeline(feature_spec, "big_tipper", batch_size=1024, in_memory=True, shuffle=16384)
train = pipeline.open("train", files)
for features, label in train.dataset:     # one epoch, in an order of its own each time
    ...

Records are batched as they are read and parsed a whole batch at a time; parsing one by one takes many times as long.
With `in_memory` they are read once, before the first epoch, and each batch is a gather at random places of all of them:
no epoch repeats the batches of another. Otherwise they are read in every epoch, the files in random order, and shuffled
through a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from configs.errors import TrainingError
from trainer.packing import Packed, Packing, joined, plain, rows, take
from trainer.shuffle import draws, permutation, shuffled_stream

READ_BATCH = 1024
"""Records that are read and parsed at a time."""
READ_BUFFER = 8 << 20
"""Bytes of a file that are read at a time."""
OPEN_FILES = 16
"""Files that are read at the same time, at most."""

Batch = tuple[dict[str, tf.Tensor], tf.Tensor]
"""Features by name, and the label: each [batch] and more."""


@dataclass(frozen=True)
class Split:
    """One split of the examples, ready to be trained on."""

    dataset: tf.data.Dataset
    """Of `Batch`: one epoch, whose last batch may be smaller; or endless, in batches of the full size."""
    steps: int | None
    """Batches in an epoch; None where that is not known before the first."""
    size: int | None
    """Examples in the split; None where they are not kept in memory."""
    seen: Callable[[], int]
    """Examples that have gone through until now, where they are not kept in memory."""


@dataclass(frozen=True)
class InputPipeline:
    """How transformed examples become batches."""

    feature_spec: Mapping[str, tf.io.FixedLenFeature]
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

    def open(self, name: str, files: Sequence[str]) -> Split:
        """The split of that name, in these TFRecord files of tf.Example. Raises TrainingError if it is empty."""
        packing = Packing(self.feature_spec)
        read = self._read(sorted(files), packing)
        split = self._from_memory(read, packing) if self.in_memory else self._from_files(read, packing)
        if split is None:
            raise TrainingError(
                f"the {name} split holds no examples. Give it more hash buckets in `data.splits`, or the pipeline more"
                " data"
            )
        return split

    def _read(self, files: Sequence[str], packing: Packing) -> tf.data.Dataset:
        """Parsed examples in packed batches of about READ_BATCH."""
        paths = tf.data.Dataset.from_tensor_slices(tf.constant(files, tf.string))
        if self.shuffle and len(files) > 1:
            paths = paths.shuffle(len(files), seed=self.seed, reshuffle_each_iteration=True)
        compression = "GZIP" if all(file.endswith(".gz") for file in files) else ""
        records = paths.interleave(
            plain(lambda path: tf.data.TFRecordDataset(path, compression, READ_BUFFER).batch(READ_BATCH)),
            cycle_length=max(min(OPEN_FILES, len(files)), 1),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        parse = plain(lambda batch: packing.pack(tf.io.parse_example(batch, dict(self.feature_spec))))
        return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)

    def _from_memory(self, read: tf.data.Dataset, packing: Packing) -> Split | None:
        with tf.device("CPU"):
            batches = list(read)
            if not batches:
                return None
            everything = joined(batches)
        size = int(rows(everything))

        def order(draw: tf.Tensor) -> tf.Tensor:
            return permutation(size, draw) if self.shuffle else tf.range(size, dtype=tf.int64)

        endless = self.steps_per_epoch is not None
        steps = self.steps_per_epoch or -(-size // self.batch_size)
        places = draws(self.seed).take(-1 if endless else 1).map(plain(order)).rebatch(self.batch_size)
        places = places if endless else places.apply(tf.data.experimental.assert_cardinality(steps))
        batches = places.map(plain(lambda which: self._batch(take(everything, which), packing)))
        return Split(batches.prefetch(tf.data.AUTOTUNE), steps, size, lambda: size)

    def _from_files(self, read: tf.data.Dataset, packing: Packing) -> Split | None:
        if not list(read.take(1)):
            return None
        with tf.device("CPU"):
            counted = tf.Variable(0, dtype=tf.int64, trainable=False)

        def count(*packed: tf.Tensor) -> Batch:
            counted.assign_add(rows(packed))
            return self._batch(packed, packing)

        batches = shuffled_stream(read, packing, self.shuffle, self.seed) if self.shuffle else read
        batches = batches if self.steps_per_epoch is None else batches.repeat()
        batches = batches.rebatch(self.batch_size).map(plain(count))
        return Split(batches.prefetch(tf.data.AUTOTUNE), self.steps_per_epoch, None, lambda: int(counted))

    def _batch(self, packed: Packed, packing: Packing) -> Batch:
        columns = packing.unpack(packed)
        return {name: column for name, column in columns.items() if name != self.label_key}, columns[self.label_key]
