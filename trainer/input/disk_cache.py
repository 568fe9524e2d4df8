"""Parsed examples on disk: written once, and read back many times faster than they are parsed.

Each process uses a temporary folder of its own and removes it, so it never meets files that another left incomplete.
The folder is below `tempfile.gettempdir()`, which a run removes when the component ends, however it ends.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from contextlib import ExitStack
from itertools import cycle

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.trainer.input.packing import Packed, Packing, no_autograph
from headrace.trainer.input.reading import without_autotune
from headrace.trainer.input.shuffle import exact_batches, permutation

SHARDS = 16
"""Files among which the blocks of examples are distributed; they are read in random order."""
PARALLEL_FILES = 8
"""Files that are read at the same time."""
BLOCK = 4096
"""Examples that are written and read at a time."""


class DiskCache:
    """The packed batches of one split.

    cache = DiskCache(batches, packing)       # writes; raises TrainingError if the disk is full
    cache.size                                # examples
    cache.stream(seed)                        # all of them, files in the order of the seed; None: as written
    """

    def __init__(self, batches: tf.data.Dataset, packing: Packing) -> None:
        self._folder = tempfile.mkdtemp(prefix="headrace-input-")
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._packing, self.size = packing, 0
        try:
            self._write(without_autotune(exact_batches(batches, packing, BLOCK)))
        except BaseException as error:
            self._remove()
            if isinstance(error, tf.errors.ResourceExhaustedError) or "No space left" in str(error):
                raise TrainingError(
                    f"the parsed examples do not fit on the disk that holds {tempfile.gettempdir()}. Set"
                    " `train.input.cache: none`, or set TMPDIR to a folder on a larger disk"
                ) from error
            raise

    def _write(self, blocks: tf.data.Dataset) -> None:
        with ExitStack() as stack:
            files = [stack.enter_context(tf.io.TFRecordWriter(self._file(number))) for number in range(SHARDS)]
            for file, packed in zip(cycle(files), blocks, strict=False):
                self.size += int(self._packing.rows(packed))
                for part in packed:
                    file.write(tf.io.serialize_tensor(part).numpy())

    def _file(self, number: int) -> str:
        return f"{self._folder}/{number:05d}"

    def stream(self, seed: tf.Tensor | None) -> tf.data.Dataset:
        """Return the batches. seed: int64 [2]."""
        empty = self._packing.empty()
        order = tf.range(SHARDS, dtype=tf.int64) if seed is None else permutation(SHARDS, seed)
        files = tf.data.Dataset.from_tensor_slices(tf.gather([self._file(number) for number in range(SHARDS)], order))

        @no_autograph
        def parsed(parts: tf.Tensor) -> Packed:
            return tuple(
                tf.ensure_shape(tf.io.parse_tensor(parts[number], part.dtype), [None, *part.shape[1:]])
                for number, part in enumerate(empty)
            )

        # Blocks were written to the files in turn, so reading the files in turn restores their order.
        blocks = files.interleave(
            no_autograph(lambda file: tf.data.TFRecordDataset(file, buffer_size=8 << 20).batch(len(empty))),
            cycle_length=SHARDS if seed is None else PARALLEL_FILES,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        return blocks.map(parsed, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
