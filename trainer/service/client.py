"""Reading through a tf.data service: its workers read and parse, the trainer shuffles and batches.

service = Service(settings)
service.check()                                    # a clear error where there is none
stream = service.stream(files, packing)            # seed of the epoch → packed batches, each example once

An epoch is one job of the service with dynamic sharding. What a killed worker lost is read once more, by the service
or, where it does not come back, by the trainer itself; what comes twice is dropped.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from headrace.configs.service import ServiceConfig
from headrace.trainer.input.packing import Packed, Packing, plain
from headrace.trainer.input.reading import PLAIN_READING, Reading
from headrace.trainer.input.worker import ALONE, Worker
from headrace.trainer.service.arrivals import StalledError, arrivals
from headrace.trainer.service.probe import alive_workers, wait_for_workers
from headrace.trainer.service.tags import Seen, tagged

PASSES = 3
"""Times that the service is asked for what is missing, before the trainer reads it itself."""
PATIENCE = 20
"""Times its `timeout` that a trainer waits for its turn of coordinated reads, while the service answers."""
REQUESTS = 16
"""Batches that are asked of the workers at the same time."""
_PROBE = 5.0
"""Seconds to wait for the dispatcher's answer before an epoch."""


@dataclass
class Tally:
    """What went otherwise than it should, over all epochs."""

    read_again: int = 0
    """Files that were asked for once more."""
    read_here: int = 0
    """Files that the trainer read itself."""
    repeats: int = 0
    """Batches that came twice, and were dropped."""

    def words(self) -> str:
        """Nothing where all went well."""
        counts = {"read again": self.read_again, "read by the trainer itself": self.read_here}
        said = [f"{count} files {what}" for what, count in counts.items() if count]
        said += [f"{self.repeats} repeated batches dropped"] if self.repeats else []
        return "; ".join(said)


@dataclass(frozen=True)
class Service:
    """A tf.data service."""

    settings: ServiceConfig
    worker: Worker = ALONE
    """Who reads, of a cluster."""
    reading: Reading = PLAIN_READING
    """How a worker of the service reads."""
    tally: Tally = field(default_factory=Tally)
    _jobs: Iterator[int] = field(default_factory=itertools.count)

    @property
    def address(self) -> str:
        """`host:port`."""
        return self.settings.address.removeprefix("grpc://")

    def check(self) -> str:
        """Who reads, in words. Raises TrainingError if nobody answers in time."""
        found = wait_for_workers(self.address, self.settings.timeout)
        many = f"{len(found)} workers" if len(found) > 1 else "one worker"
        how = "coordinated reads" if self.settings.coordinated else f"sharding {self.settings.sharding}"
        return f"read through {self.settings.address} by {many} ({how})"

    def stream(
        self, files: Sequence[str], packing: Packing, *, in_order: bool = False
    ) -> Callable[[tf.Tensor | None], tf.data.Dataset]:
        """From what an epoch's order follows from, int64 [2], to its examples in packed batches, each example once;
        None: in the order of the files. Graph code.

        in_order: whether batches come in that order (what is early waits), and not as the workers deliver them.
        """
        spec = tuple(tagged(files, packing, self.reading).element_spec[2:])

        def generate(*seed: np.ndarray) -> Iterator[Packed]:
            order = np.arange(len(files))
            if seed:
                order = np.random.default_rng(seed[0].view(np.uint64)).permutation(order)
            delivered = self._deliver([files[place] for place in order.tolist()], packing)
            if in_order or not seed:
                return _sorted(delivered, packing)
            return (packed for _, _, packed in delivered if _some(packed, packing))

        def stream(seed: tf.Tensor | None) -> tf.data.Dataset:
            args = () if seed is None else (seed,)
            return tf.data.Dataset.from_generator(generate, args=args, output_signature=spec)

        return stream

    def endless(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """What the workers make of the dataset, each for itself, without an end; from then on on this machine.

        To delete an iterator, TensorFlow waits for the Python code within it; and a trainer that reads ahead may wait
        for the turn of another one that has ended. So the generator also gives elements that say that nothing came,
        which are left out: whoever deletes the iterator then waits for a second at most.
        """
        spec = tuple(dataset.element_spec)
        # NumPy's: with several workers this is called while TensorFlow builds a graph, where tensors have no values.
        nothing = tuple(_blank([size or 0 for size in part.shape], part.dtype) for part in spec)

        def generate() -> Iterator[tuple[bool, *Packed]]:
            failed = 0
            while True:
                here = not alive_workers(self.address, _PROBE)
                until = time.monotonic() + self.settings.timeout
                if here:
                    self.tally.read_here += 1
                    print(f"input: {self.settings.address} does not answer: the trainer reads itself", flush=True)
                    elements: Iterator[Any] = iter(dataset)
                else:
                    served = dataset.apply(self._every_worker())
                    elements = arrivals(served, self.settings.timeout, self._patience(failed))
                failed += 1
                try:
                    for packed in elements:
                        if packed is None:
                            yield False, *nothing
                            continue
                        failed = 0
                        yield True, *packed
                        if here and time.monotonic() > until:
                            break
                except StalledError as error:
                    print(f"input: {self.settings.address}: {error}", flush=True)

        stream = tf.data.Dataset.from_generator(generate, output_signature=(tf.TensorSpec([], tf.bool), *spec))
        return stream.filter(plain(lambda came, *_: came)).map(plain(lambda _, *packed: packed))

    def _deliver(self, files: list[str], packing: Packing) -> Iterator[tuple[int, int, Packed]]:
        """Every batch of the files once, with its place."""
        seen, wanted = Seen(len(files)), list(range(len(files)))
        for number in range(PASSES + 1):
            here = number == PASSES or not alive_workers(self.address, _PROBE)
            try:
                for place, batch, packed in self._pass([files[at] for at in wanted], packing, here):
                    last = not _some(packed, packing)
                    if seen.is_new(wanted[place], batch, last=last):
                        yield wanted[place], batch, packed
                    if seen.complete:  # TensorFlow's client would find that out a second later
                        break
            except StalledError as error:
                print(f"input: {self.settings.address}: {error}", flush=True)
            wanted = seen.missing()
            if not wanted:
                break
            self.tally.read_again += len(wanted)
            print(f"input: {len(wanted)} of {len(files)} files came incomplete and are read once more", flush=True)
        self.tally.repeats += seen.repeats

    def _pass(self, files: list[str], packing: Packing, here: bool) -> Iterator[tuple[int, int, Packed]]:
        dataset = tagged(files, packing, self.reading)
        if here:
            self.tally.read_here += len(files)
            print(f"input: {self.settings.address} does not answer: the trainer reads {len(files)} files", flush=True)
            elements: Iterator[tf.Tensor] = iter(dataset)
        else:
            elements = arrivals(dataset.apply(self._distributed()), self.settings.timeout)
        for element in elements:
            if element is not None:
                place, number, *packed = element
                yield int(place), int(number), tuple(packed)

    def _patience(self, failed: int) -> Callable[[int], bool]:
        """Whether to wait on, after so many times in vain: no longer where every trainer reads for itself.

        A turn of coordinated reads comes when all trainers have asked for it, and one may be at something else. If one
        leaves them, all have to: they meet again because who left first waits twice as long, before it leaves again.
        failed: reads in a row that gave nothing.
        """
        most = PATIENCE << failed if self.settings.coordinated else 1

        def wait_on(times: int) -> bool:
            if times == 1 and most > 1:
                print(f"input: {self.settings.address}: waiting for the other trainers, or for the service", flush=True)
            return times < most and bool(alive_workers(self.address, _PROBE))

        return wait_on

    def _every_worker(self) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
        """Each worker gives the whole dataset; coordinated, they take turns, and each gives one batch to each of the
        trainers of a cluster before it is the next one's turn.
        """
        turns: dict[str, Any] = {"max_outstanding_requests": REQUESTS}
        if self.settings.coordinated:
            name = f"{self.worker.training or uuid.uuid4().hex}-{next(self._jobs)}"  # the trainers count alike
            turns = {"job_name": name, "consumer_index": self.worker.number, "num_consumers": self.worker.of}
        service = tf.data.experimental.service
        return service.distribute(service.ShardingPolicy.OFF, self.settings.address, **turns)

    def _distributed(self) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
        service = tf.data.experimental.service
        return service.distribute(
            service.ShardingPolicy.DYNAMIC, self.settings.address, max_outstanding_requests=REQUESTS
        )


def _some(packed: Packed, packing: Packing) -> bool:
    return int(packing.rows(packed)) > 0


def _sorted(delivered: Iterator[tuple[int, int, Packed]], packing: Packing) -> Iterator[Packed]:
    """The batches in the order of their places; the last of each file, which is empty, leads on to the next file."""
    waiting: dict[tuple[int, int], Packed] = {}
    place = number = 0
    for at, which, packed in delivered:
        waiting[at, which] = packed
        while (place, number) in waiting:
            ready = waiting.pop((place, number))
            ends = not _some(ready, packing)
            place, number = (place + 1, 0) if ends else (place, number + 1)
            if not ends:
                yield ready


def _blank(shape: list[int], dtype: tf.DType) -> np.ndarray:
    return np.full(shape, b"", object) if dtype == tf.string else np.zeros(shape, dtype.as_numpy_dtype)
