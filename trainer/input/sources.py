"""Where the parsed examples of a split come from: its files, a tf.data service, a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf

from configs.service import service
from configs.train import TrainConfig
from trainer.input.memory import Cache
from trainer.input.packing import Packing
from trainer.input.snapshot import Snapshots
from trainer.service.client import Service
from trainer.service.endless import endless, endless_batches

Stream = Callable[[tf.Tensor | None], tf.data.Dataset]


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

    @classmethod
    def of(cls, train: TrainConfig, transform_graph: Path) -> Sources:
        """Raises TrainingError if the service does not answer."""
        config = train.input
        settings = service(config.service)
        reader = Service(settings) if settings else None
        words = reader.check() if reader else ""
        kept = Snapshots(Path(config.snapshot).absolute(), transform_graph) if config.snapshot else None
        return cls(reader, kept, train, words)

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
        if served.settings.coordinated:
            batches = endless_batches(files, packing, self.train.input.shuffle, self.train.batch_size)
            return lambda _: served.endless(batches)
        read = endless(files, packing)  # made here, as the lambda is called while a graph is
        return lambda seed: one_pass(None) if seed is None else served.endless(read)

    @property
    def shuffle(self) -> int:
        """Examples in the trainer's shuffle: none where the workers shuffle."""
        coordinated = self.service is not None and self.service.settings.coordinated
        return 0 if coordinated else self.train.input.shuffle

    def cache(self, chosen: Cache) -> Cache:
        """Without a cache where there is no end; without one on disk where there is a snapshot, which is one."""
        if self.service and self.service.settings.sharding == "off":
            return Cache("none", "each worker of the service reads everything, without an end")
        if chosen.where != "disk" or self.snapshots is None:
            return chosen
        return Cache("none", f"{chosen.why}; the snapshot serves as the cache on disk")

    def told(self) -> str:
        """In words, for the log and the training record; empty where the files are read as they are."""
        return "".join(f"; {said}" for said in (self.words, self.snapshots.words() if self.snapshots else "") if said)
