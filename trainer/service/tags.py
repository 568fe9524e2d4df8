"""Batches with their place, so that what a tf.data service lost or repeated is known.

The service's distributed epoch gives each example at most once: what a worker that is killed had taken and not yet
delivered is lost. So each batch carries the number of its file and its number in the file, and an empty one closes each
file. What is missing can then be read again, and what comes twice can be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from headrace.trainer.input.packing import Packing, plain
from headrace.trainer.input.reading import PLAIN_READING, READ_BUFFER, Reading

SHARES = 8
"""One file in so many is open in a worker at the same time, so that the files are shared evenly."""


def tagged(files: Sequence[str], packing: Packing, reading: Reading = PLAIN_READING) -> tf.data.Dataset:
    """(file's place in `files`, batch's number in it, *packed): the records of TFRecord files, parsed as `read_batch`
    and, of each worker, `open_files` say. An empty batch ends each file.
    """
    places = tf.data.Dataset.from_tensor_slices((tf.range(len(files), dtype=tf.int64), tf.constant(files, tf.string)))
    compression = "GZIP" if all(file.endswith(".gz") for file in files) else ""
    end = tf.zeros([0], tf.string)

    @plain
    def of_file(place: tf.Tensor, path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, compression, READ_BUFFER).batch(reading.read_batch)
        numbered = records.concatenate(tf.data.Dataset.from_tensors(end)).enumerate()
        return numbered.map(plain(lambda number, batch: (place, number, batch)))

    at_once = min(max(len(files) // SHARES, 1), reading.open_files)
    read = places.interleave(of_file, cycle_length=at_once, num_parallel_calls=at_once, deterministic=False)
    parse = plain(lambda place, number, batch: (place, number, *packing.parse(batch)))
    return read.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)


@dataclass
class Seen:
    """What came of so many files."""

    files: int
    repeats: int = 0
    """Batches that came again and were dropped."""
    _batches: dict[int, set[int]] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)
    _whole: set[int] = field(default_factory=set)

    def is_new(self, place: int, number: int, *, last: bool) -> bool:
        """Note a batch; whether it had not come before."""
        batches = self._batches.setdefault(place, set())
        if number in batches:
            self.repeats += 1
            return False
        batches.add(number)
        if last:
            self._ends[place] = number
        if len(batches) == self._ends.get(place, -2) + 1:
            self._whole.add(place)
        return True

    @property
    def complete(self) -> bool:
        """Whether everything has come."""
        return len(self._whole) == self.files

    def missing(self) -> list[int]:
        """The files of which something has not come."""
        return [place for place in range(self.files) if place not in self._whole]
