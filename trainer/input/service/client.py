"""Reading through a tf.data service: its workers read and parse, the trainer shuffles and batches.

service = DataService(settings)
service.check()                                    # raises a clear error if there is none
stream = service.stream(files, packing)            # seed of the epoch → packed batches, each example once

An epoch is one job of the service with dynamic sharding. What a killed worker lost is read again, by the service or, if
it does not come back, by the trainer itself; duplicates are dropped.
"""

from __future__ import annotations

import itertools
import logging
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from headrace.configs.schema.train import ServiceConfig
from headrace.trainer.input.packing import Packed, Packing, no_autograph
from headrace.trainer.input.reading import DEFAULT_INPUT_OPTIONS, SINGLE_WORKER, ClusterWorker, InputOptions
from headrace.trainer.input.service.delivery import DeliveryLog, StalledError, elements_with_timeout, numbered_batches
from headrace.trainer.service.probe import alive_workers, wait_for_workers

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""Times that the service is asked for missing batches before the trainer reads them itself."""
PATIENCE = 20
"""Multiple of `timeout` that a trainer waits for its turn in coordinated reads while the service answers."""
REQUESTS = 16
"""Batches that are requested from the workers at the same time."""
_PROBE = 5.0
"""Seconds to wait for the dispatcher's answer before an epoch."""


@dataclass
class ReadStatistics:
    """Deviations from normal reading, over all epochs."""

    read_again: int = 0
    """Files that were requested again."""
    read_here: int = 0
    """Files that the trainer read itself."""
    repeats: int = 0
    """Duplicate batches, which were dropped."""

    def words(self) -> str:
        """Describe the deviations; empty if there are none."""
        counts = {"read again": self.read_again, "read by the trainer itself": self.read_here}
        words = [f"{count} files {what}" for what, count in counts.items() if count]
        words += [f"{self.repeats} repeated batches dropped"] if self.repeats else []
        return "; ".join(words)


@dataclass(frozen=True)
class DataService:
    """A tf.data service."""

    settings: ServiceConfig
    worker: ClusterWorker = SINGLE_WORKER
    """Which worker of the training cluster reads."""
    reading: InputOptions = DEFAULT_INPUT_OPTIONS
    """How a worker of the service reads."""
    statistics: ReadStatistics = field(default_factory=ReadStatistics)
    _jobs: Iterator[int] = field(default_factory=itertools.count)

    @property
    def address(self) -> str:
        """`host:port`."""
        return self.settings.address.removeprefix("grpc://")

    def check(self) -> str:
        """Describe who reads. Raises TrainingError if the service does not answer in time."""
        found = wait_for_workers(self.address, self.settings.timeout)
        many = f"{len(found)} workers" if len(found) > 1 else "one worker"
        how = "coordinated reads" if self.settings.coordinated else f"sharding {self.settings.sharding}"
        return f"read through {self.settings.address} by {many} ({how})"

    def stream(
        self, files: Sequence[str], packing: Packing, *, in_order: bool = False
    ) -> Callable[[tf.Tensor | None], tf.data.Dataset]:
        """Return a stream of the files' examples in packed batches, each example once.

        The stream maps the seed of an epoch, int64 [2], to its examples; None keeps the order of the files. It is graph
        code.

        in_order: whether batches come in the order of the seed, which delays early ones, or as the workers deliver
        them.
        """
        spec = tuple(numbered_batches(files, packing, self.reading).element_spec[2:])

        def generate(*seed: np.ndarray) -> Iterator[Packed]:
            order = np.arange(len(files))
            if seed:
                order = np.random.default_rng(seed[0].view(np.uint64)).permutation(order)
            delivered = self._deliver([files[number] for number in order.tolist()], packing)
            if in_order or not seed:
                return _in_order(delivered, packing)
            return (packed for _, _, packed in delivered if not _is_empty(packed, packing))

        def stream(seed: tf.Tensor | None) -> tf.data.Dataset:
            args = () if seed is None else (seed,)
            return tf.data.Dataset.from_generator(generate, args=args, output_signature=spec)

        return stream

    def endless(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Return what each worker makes of the dataset, endlessly; falls back to this machine if the service is gone.

        To delete an iterator, TensorFlow waits for the Python code within it; and a trainer that reads ahead may wait
        for the turn of another trainer that has ended. So the generator also yields placeholders, which are filtered
        out: deleting the iterator then takes a second at most.
        """
        spec = tuple(dataset.element_spec)
        # NumPy arrays: with several workers this runs while TensorFlow builds a graph, where tensors have no values.
        placeholder = tuple(_zeros([size or 0 for size in part.shape], part.dtype) for part in spec)

        def generate() -> Iterator[tuple[bool, *Packed]]:
            failed = 0
            while True:
                here = not alive_workers(self.address, _PROBE)
                until = time.monotonic() + self.settings.timeout
                if here:
                    self.statistics.read_here += 1
                    logger.warning(f"input: {self.settings.address} does not answer: the trainer reads itself")
                    elements: Iterator[Any] = iter(dataset)
                else:
                    served = dataset.apply(self._every_worker())
                    elements = elements_with_timeout(served, self.settings.timeout, self._patience(failed))
                failed += 1
                try:
                    for packed in elements:
                        if packed is None:
                            yield False, *placeholder
                            continue
                        failed = 0
                        yield True, *packed
                        if here and time.monotonic() > until:
                            break  # look for the service again
                except StalledError as error:
                    logger.warning(f"input: {self.settings.address}: {error}")

        stream = tf.data.Dataset.from_generator(generate, output_signature=(tf.TensorSpec([], tf.bool), *spec))
        real = stream.filter(no_autograph(lambda is_real, *_: is_real))
        return real.map(no_autograph(lambda _, *packed: packed))

    def _deliver(self, files: list[str], packing: Packing) -> Iterator[tuple[int, int, Packed]]:
        """Yield every batch of the files once, with the number of its file and its number in the file."""
        log, wanted = DeliveryLog(len(files)), list(range(len(files)))
        for attempt in range(ATTEMPTS + 1):
            here = attempt == ATTEMPTS or not alive_workers(self.address, _PROBE)
            try:
                for file, batch, packed in self._read_once([files[number] for number in wanted], packing, here):
                    if log.add(wanted[file], batch, last=_is_empty(packed, packing)):
                        yield wanted[file], batch, packed
                    if log.complete:  # TensorFlow's client would find this out a second later
                        break
            except StalledError as error:
                logger.warning(f"input: {self.settings.address}: {error}")
            wanted = log.missing()
            if not wanted:
                break
            self.statistics.read_again += len(wanted)
            logger.warning(f"input: {len(wanted)} of {len(files)} files were incomplete and are read again")
        self.statistics.repeats += log.repeats

    def _read_once(self, files: list[str], packing: Packing, here: bool) -> Iterator[tuple[int, int, Packed]]:
        dataset = numbered_batches(files, packing, self.reading)
        if here:
            self.statistics.read_here += len(files)
            logger.warning(f"input: {self.settings.address} does not answer: the trainer reads {len(files)} files")
            elements: Iterator[tf.Tensor] = iter(dataset)
        else:
            elements = elements_with_timeout(dataset.apply(self._distributed()), self.settings.timeout)
        for element in elements:
            if element is not None:
                file, number, *packed = element
                yield int(file), int(number), tuple(packed)

    def _patience(self, failed: int) -> Callable[[int], bool]:
        """Return a function from the number of timeouts in a row to whether to keep waiting.

        A turn of coordinated reads comes when all trainers have asked for it, and one may be busy with something else.
        If one trainer leaves the job, all have to. They meet again because the one that left first waits twice as long
        before it leaves again. Uncoordinated reads do not wait.

        failed: number of reads in a row that returned nothing.
        """
        limit = PATIENCE << failed if self.settings.coordinated else 1

        def keep_waiting(timeouts: int) -> bool:
            if timeouts == 1 and limit > 1:
                logger.warning(f"input: {self.settings.address}: waiting for the other trainers, or for the service")
            return timeouts < limit and bool(alive_workers(self.address, _PROBE))

        return keep_waiting

    def _every_worker(self) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
        """Read the whole dataset from each worker.

        With coordinated reads, the workers take turns: each delivers one batch to each trainer of a cluster before the
        next one does.
        """
        turns: dict[str, Any] = {"max_outstanding_requests": REQUESTS}
        if self.settings.coordinated:
            # Jobs are identified by name: all trainers count theirs in the same way.
            name = f"{self.worker.training or uuid.uuid4().hex}-{next(self._jobs)}"
            turns = {"job_name": name, "consumer_index": self.worker.number, "num_consumers": self.worker.count}
        service = tf.data.experimental.service
        return service.distribute(service.ShardingPolicy.OFF, self.settings.address, **turns)

    def _distributed(self) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
        service = tf.data.experimental.service
        return service.distribute(
            service.ShardingPolicy.DYNAMIC, self.settings.address, max_outstanding_requests=REQUESTS
        )


def _is_empty(packed: Packed, packing: Packing) -> bool:
    return int(packing.rows(packed)) == 0


def _in_order(delivered: Iterator[tuple[int, int, Packed]], packing: Packing) -> Iterator[Packed]:
    """Sort the batches by file and number; the last one of each file is empty."""
    waiting: dict[tuple[int, int], Packed] = {}
    file = number = 0
    for of_file, batch, packed in delivered:
        waiting[of_file, batch] = packed
        while (file, number) in waiting:
            ready = waiting.pop((file, number))
            is_last = _is_empty(ready, packing)
            file, number = (file + 1, 0) if is_last else (file, number + 1)
            if not is_last:
                yield ready


def _zeros(shape: list[int], dtype: tf.DType) -> np.ndarray:
    return np.full(shape, b"", object) if dtype == tf.string else np.zeros(shape, dtype.as_numpy_dtype)
