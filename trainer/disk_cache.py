"""Parsed examples on disk: written once, read back many times as fast as they are parsed.

They lie in a folder of this process's own, made for them and removed with them, so what another left half-written is
never met. The folder is below `tempfile.gettempdir()`, which a run removes when the component ends, however it ends.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref

import tensorflow as tf

from configs.errors import TrainingError
from trainer.packing import Packing, plain
from trainer.shuffle import by_seed

SHARDS = 16
"""Files that the examples are dealt to, batch by batch; they are read in random order."""
TOGETHER = 8
"""Files that are read at the same time."""


class DiskCache:
    """The packed batches of one split.

    cache = DiskCache(batches, packing)       # writes; raises TrainingError where the disk is full
    cache.size                                # examples
    cache.stream(seed)                        # all of them, files in an order of the seed's; None: as written
    """

    def __init__(self, batches: tf.data.Dataset, packing: Packing) -> None:
        self._folder = tempfile.mkdtemp(prefix="headrace-input-")
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        with tf.device("CPU"):
            counted = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._spec = batches.element_spec

        def count(*packed: tf.Tensor) -> tuple[tf.Tensor, ...]:
            counted.assign_add(packing.rows(packed))
            return packed

        numbered = batches.map(plain(count)).enumerate()
        try:
            numbered.save(self._folder, shard_func=plain(lambda number, _: number % SHARDS))
        except tf.errors.OpError as error:
            self.remove()
            if isinstance(error, tf.errors.ResourceExhaustedError) or "No space left" in str(error):
                raise TrainingError(
                    f"the parsed examples do not fit on the disk that holds {tempfile.gettempdir()}. Set"
                    " `train.input.cache: none`, or TMPDIR to a folder on a larger disk"
                ) from error
            raise
        self.size = int(counted)

    def remove(self) -> None:
        """Remove the files; otherwise they go with this object, or with the process."""
        self._remove()

    def stream(self, seed: tf.Tensor | None) -> tf.data.Dataset:
        """The batches; seed: int64 [2]."""
        spec = (tf.TensorSpec([], tf.int64), self._spec)

        def ordered(files: tf.data.Dataset) -> tf.data.Dataset:
            if seed is not None:
                mixture = seed[0] * 1_000_003 + seed[1]
                files = by_seed(files, SHARDS, mixture)
            return files.interleave(
                plain(lambda file: file), cycle_length=TOGETHER, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
            )

        read = tf.data.Dataset.load(self._folder, spec, reader_func=plain(ordered))
        return read.map(plain(lambda _, packed: packed))
