"""Reliable delivery from a tf.data service: numbered batches, so that nothing is lost or repeated, and timeouts.

The service's distributed epoch delivers each example at most once: what a killed worker had taken but not yet delivered
is lost. So each batch carries the number of its file and its number in the file, and an empty one ends each file.
Missing batches can then be read again, and duplicates dropped.

TensorFlow's client waits forever if a worker does not come back or the whole service is gone. So a thread waits for it,
and is abandoned when nothing has arrived for too long.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from headrace.trainer.input.packing import Packing, no_autograph
from headrace.trainer.input.reading import DEFAULT_INPUT_OPTIONS, READ_BUFFER, InputOptions, without_autotune
from headrace.trainer.private_api import CancellationManager

FILES_PER_OPEN_FILE = 8
"""A worker opens one file in this many at the same time, so that the files are distributed evenly."""
AHEAD = 8
"""Elements that may wait to be consumed."""
TICK = 1.0
"""Seconds after which the consumer gets control even if nothing has arrived, so that it can stop."""
_END = object()


def numbered_batches(
    files: Sequence[str], packing: Packing, reading: InputOptions = DEFAULT_INPUT_OPTIONS
) -> tf.data.Dataset:
    """Parse TFRecord files into elements (index of the file, number of the batch in it, *packed).

    An empty batch ends each file. `read_batch` is the size of a batch, and `open_files` the limit of each worker.
    """
    paths = tf.data.Dataset.from_tensor_slices((tf.range(len(files), dtype=tf.int64), tf.constant(files, tf.string)))
    compression = "GZIP" if all(file.endswith(".gz") for file in files) else ""
    end = tf.zeros([0], tf.string)

    @no_autograph
    def of_file(index: tf.Tensor, path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, compression, READ_BUFFER).batch(reading.read_batch)
        numbered = records.concatenate(tf.data.Dataset.from_tensors(end)).enumerate()
        return numbered.map(no_autograph(lambda number, batch: (index, number, batch)))

    parallel = min(max(len(files) // FILES_PER_OPEN_FILE, 1), reading.open_files)
    read = paths.interleave(of_file, cycle_length=parallel, num_parallel_calls=parallel, deterministic=False)
    parse = no_autograph(lambda index, number, batch: (index, number, *packing.parse(batch)))
    return read.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)


@dataclass
class DeliveryLog:
    """Which batches of some files have arrived."""

    files: int
    """Number of files."""
    repeats: int = 0
    """Batches that arrived again."""
    _batches: dict[int, set[int]] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)
    _complete: set[int] = field(default_factory=set)

    def add(self, file: int, number: int, *, last: bool) -> bool:
        """Record a batch; return whether it is new."""
        batches = self._batches.setdefault(file, set())
        if number in batches:
            self.repeats += 1
            return False
        batches.add(number)
        if last:
            self._ends[file] = number
        if len(batches) == self._ends.get(file, -2) + 1:
            self._complete.add(file)
        return True

    @property
    def complete(self) -> bool:
        """Whether everything has arrived."""
        return len(self._complete) == self.files

    def missing(self) -> list[int]:
        """The files of which something has not arrived."""
        return [file for file in range(self.files) if file not in self._complete]


class StalledError(Exception):
    """Nothing arrived for too long, or the service failed."""


def elements_with_timeout(
    dataset: tf.data.Dataset, timeout: float, keep_waiting: Callable[[int], bool] = lambda _: False
) -> Iterator[Any]:
    """Yield the elements as eager tensors, and None whenever nothing has arrived for TICK seconds.

    Raises StalledError when nothing has arrived for `timeout` seconds, or on an error.

    keep_waiting: from the number of timeouts in a row to whether to wait once more.
    """
    arrived: queue.Queue[Any] = queue.Queue(AHEAD)
    cancellation = CancellationManager()
    abandoned = threading.Event()
    thread = threading.Thread(target=_fetch, args=(dataset, arrived, cancellation, abandoned), daemon=True)
    thread.start()
    try:
        for element in _wait(arrived, timeout, keep_waiting):
            if element is _END:
                return
            if isinstance(element, Exception):
                raise StalledError(f"{type(element).__name__}: {str(element).splitlines()[0]}") from element
            yield element
    finally:
        abandoned.set()
        cancellation.start_cancel()


def _wait(arrived: queue.Queue[Any], timeout: float, keep_waiting: Callable[[int], bool]) -> Iterator[Any]:
    ticks = max(1, math.ceil(timeout / TICK))
    empty = 0
    while True:
        try:
            element = arrived.get(timeout=timeout / ticks)
        except queue.Empty:
            empty += 1
            if empty % ticks == 0 and not keep_waiting(empty // ticks):
                raise StalledError(f"no batch for {empty // ticks * timeout:g} s") from None
            yield None
        else:
            empty = 0
            yield element


def _fetch(
    dataset: tf.data.Dataset,
    arrived: queue.Queue[Any],
    cancellation: CancellationManager,
    abandoned: threading.Event,
) -> None:
    """Put the elements into the queue, followed by _END or the error."""
    try:
        with tf.device("CPU"):
            iterator = iter(without_autotune(dataset))
            step = tf.function(iterator.get_next_as_optional, autograph=False).get_concrete_function()
        step = cancellation.get_cancelable_function(step)
        while not abandoned.is_set():
            element = step()
            if not bool(element.has_value()):
                return _put(_END, arrived, abandoned)
            _put(element.get_value(), arrived, abandoned)
    except Exception as error:
        _put(error, arrived, abandoned)
    return None


def _put(element: Any, arrived: queue.Queue[Any], abandoned: threading.Event) -> None:
    """Wait for room in the queue, unless the consumer is gone."""
    while not abandoned.is_set():
        try:
            return arrived.put(element, timeout=0.5)
        except queue.Full:
            continue
    return None
