"""Where the parsed examples of a split come from: its files, a tf.data service, a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from headrace.configs.service import service
from headrace.configs.train import TrainConfig
from headrace.trainer.input.buckets import Buckets
from headrace.trainer.input.memory import Cache
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.pipeline import Stream
from headrace.trainer.input.reading import Reading
from headrace.trainer.input.snapshot import Snapshots
from headrace.trainer.input.worker import ALONE, Worker
from headrace.trainer.service.client import Service
from headrace.trainer.service.endless import endless, endless_batches


@dataclass(frozen=True)
class Sources:
    """What `train.input` says of it.

    sources = Sources.of(config, transform_graph)
    stream = sources.stream("train", files, packing, pipeline.from_files(files, packing))
    """

    service: Service | None = None
    snapshots: Snapshots | None = None
    train: TrainConfig = field(default_factory=TrainConfig)
    words: str = ""
    """Of the service; empty without one."""
    worker: Worker = ALONE
    buckets: Buckets | None = None
    """Of lengths, where the service's workers make the batches."""

    @classmethod
    def of(cls, train: TrainConfig, transform_graph: Path, worker: Worker = ALONE) -> Sources:
        """Raises TrainingError if the service does not answer, or batches cannot be divided among the workers."""
        config = train.input
        settings = service(config.service)
        reader = Service(settings, worker, Reading.of(config)) if settings else None
        words = reader.check() if reader else ""
        kept = Snapshots(Path(config.snapshot).absolute(), transform_graph) if config.snapshot else None
        found = cls(reader, kept, train, words, worker)
        if not found.own_batches:
            return found
        reads = "" if reader else "reads its own files and "
        told = f"each of {worker.of} workers {reads}makes {worker.part(train.batch_size):,} examples of a batch"
        return replace(found, words="; ".join(filter(None, (words, told))))

    def bucketed(self, buckets: Buckets | None, lengths: np.ndarray | None) -> Sources:
        """The same, where the service's workers make the batches by length. lengths: of some examples."""
        if not self._coordinated or buckets is None or lengths is None:
            return self
        return replace(self, buckets=buckets.few(lengths))

    @property
    def own_batches(self) -> bool:
        """Whether each worker of a cluster trains on batches of its own; else all make the same, and take their part.

        A worker's own batches have no end in common with those of the others, so an epoch has to be so many steps.
        """
        shared = self.service is not None or self.train.input.own_shards
        return shared and self.worker.of > 1 and self.train.steps_per_epoch is not None

    @property
    def batch_size(self) -> int:
        """Examples in a batch of the train split, as it is read here."""
        return self.worker.part(self.train.batch_size) if self.own_batches else self.train.batch_size

    def start(self, batches: int) -> int:
        """Where a training that goes on behind so many batches begins to read: where nothing has an end, anywhere."""
        return 0 if self.service and self.service.settings.sharding == "off" else batches

    def files(self, all_files: Sequence[str]) -> Sequence[str]:
        """Those of the train split that this worker reads: its share, where the workers share an epoch.

        Raises TrainingError if there are too few.
        """
        unshared = self.service is not None and self.service.settings.sharding == "off"
        return self.worker.share(all_files) if self.own_batches and not unshared else all_files

    def stream(self, split: str, files: Sequence[str], packing: Packing, read: Stream) -> Stream:
        """The split's examples. read: from the files, in this process."""
        if self.service:
            read = self._served(self.service, split, files, packing)
        return self.snapshots.stream(split, files, packing, read) if self.snapshots else read

    def _served(self, served: Service, split: str, files: Sequence[str], packing: Packing) -> Stream:
        """The split through the service. Without sharding, each worker reads all of the train split, without an end;
        its single passes, which are looked at beside the training, are sharded all the same.
        """
        one_pass = served.stream(files, packing, in_order=self.train.input.deterministic)
        if split != "train" or served.settings.sharding != "off":
            return one_pass
        read = endless(files, packing, served.reading)  # made here, as the lambdas are called while a graph is
        if served.settings.coordinated:
            shuffle = self.train.input.shuffle
            batches = endless_batches(read, packing, shuffle, self.batch_size, self.buckets, self.worker.of)
            return lambda _: served.endless(batches)
        return lambda seed: one_pass(None) if seed is None else served.endless(read)

    @property
    def shuffle(self) -> int:
        """Examples in the trainer's shuffle: none where the workers shuffle."""
        return 0 if self._coordinated else self.train.input.shuffle

    @property
    def _coordinated(self) -> bool:
        return self.service is not None and self.service.settings.coordinated

    def cache(self, chosen: Cache) -> Cache:
        """Without a cache where there is no end; without one on disk where there is a snapshot, which is one."""
        if self.service and self.service.settings.sharding == "off":
            return Cache("none", "each worker of the service reads everything, without an end")
        return chosen.by_snapshot() if self.snapshots else chosen

    def told(self) -> str:
        """In words, for the log and the training record; empty where the files are read as they are."""
        return "".join(f"; {said}" for said in (self.words, self.snapshots.words() if self.snapshots else "") if said)
