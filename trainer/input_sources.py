"""Where the parsed examples of a split come from: its files, a tf.data service, a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from configs.input import InputConfig
from configs.service import service
from trainer.memory import Cache
from trainer.packing import Packing
from trainer.service import Service
from trainer.snapshot import Snapshots

Stream = Callable[[tf.Tensor | None], tf.data.Dataset]


@dataclass(frozen=True)
class Sources:
    """What `train.input` says of it.

    sources = Sources.of(config, transform_graph)
    stream = sources.stream("train", files, packing, pipeline.from_files(files, packing))
    """

    service: Service | None = None
    snapshots: Snapshots | None = None
    deterministic: bool = True
    words: str = ""
    """Of the service; empty without one."""

    @classmethod
    def of(cls, config: InputConfig, transform_graph: Path) -> Sources:
        """Raises TrainingError if the service does not answer."""
        settings = service(config.service)
        reader = Service(settings) if settings else None
        words = reader.check() if reader else ""
        kept = Snapshots(Path(config.snapshot).absolute(), transform_graph) if config.snapshot else None
        return cls(reader, kept, config.deterministic, words)

    def stream(self, split: str, files: Sequence[str], packing: Packing, read: Stream) -> Stream:
        """The split's examples. read: from the files, in this process."""
        if self.service:
            read = self.service.stream(files, packing, in_order=self.deterministic)
        return self.snapshots.stream(split, files, read) if self.snapshots else read

    def cache(self, chosen: Cache) -> Cache:
        """Without a cache on disk where there is a snapshot, which is one."""
        if chosen.where != "disk" or self.snapshots is None:
            return chosen
        return Cache("none", f"{chosen.why}; the snapshot serves as the cache on disk")

    def told(self) -> str:
        """In words, for the log and the training record; empty where the files are read as they are."""
        return "".join(f"; {said}" for said in (self.words, self.snapshots.words() if self.snapshots else "") if said)
