"""Where the parsed examples of a split come from: its files, a tf.data service, or a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from headrace.configs.schema.train import TrainConfig, service_config
from headrace.trainer.input.buckets import LengthBuckets
from headrace.trainer.input.memory import CacheChoice
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.reading import SINGLE_WORKER, ClusterWorker, InputOptions
from headrace.trainer.input.service.client import DataService
from headrace.trainer.input.service.endless import endless, endless_batches
from headrace.trainer.input.shuffle import Stream
from headrace.trainer.input.snapshot import Snapshots


@dataclass(frozen=True)
class ExampleSources:
    """The sources that `train.input` configures.

    sources = ExampleSources.of(config, transform_graph)
    stream = sources.stream("train", files, packing, pipeline.file_stream(files, packing))
    """

    service: DataService | None = None
    snapshots: Snapshots | None = None
    train: TrainConfig = field(default_factory=TrainConfig)
    words: str = ""
    """Description of the service; empty without one."""
    worker: ClusterWorker = SINGLE_WORKER
    buckets: LengthBuckets | None = None
    """Buckets of lengths, if the service's workers make the batches."""

    @classmethod
    def of(
        cls,
        train: TrainConfig,
        transform_graph: Path,
        worker: ClusterWorker = SINGLE_WORKER,
        *,
        columns: bool = False,
    ) -> ExampleSources:
        """Raises TrainingError if the service does not answer, or batches cannot be divided among the workers.

        columns: whether examples are stored as columns, of which neither a service nor a snapshot has anything to
        parse.
        """
        config = train.input
        if columns and (config.service or config.snapshot):
            return cls._of_columns(train, worker)
        settings = service_config(config.service)
        reader = DataService(settings, worker, InputOptions.of(config)) if settings else None
        words = reader.check() if reader else ""
        snapshots = Snapshots(Path(config.snapshot).absolute(), transform_graph) if config.snapshot else None
        sources = cls(reader, snapshots, train, words, worker)
        if not sources.own_batches:
            return sources
        reads = "" if reader else "reads its own files and "
        own = (
            f"each of {worker.count} workers {reads}makes {worker.part(train.global_batch_size):,} examples of a batch"
        )
        return replace(sources, words="; ".join(filter(None, (words, own))))

    @classmethod
    def _of_columns(cls, train: TrainConfig, worker: ClusterWorker) -> ExampleSources:
        """Explain what is not used."""
        named = [f"`train.input.{name}`" for name in ("service", "snapshot") if getattr(train.input, name)]
        why = "there is nothing to parse: Transform wrote columns. `transform.materialize: always` writes TFRecords"
        left = train.model_copy(update={"input": train.input.model_copy(update={"service": None, "snapshot": None})})
        sources = cls.of(left, Path(), worker, columns=True)
        words = f"{' and '.join(named)} not used, since {why}"
        return replace(sources, words="; ".join(filter(None, (words, sources.words))))

    def bucketed(self, buckets: LengthBuckets | None, lengths: np.ndarray | None) -> ExampleSources:
        """Let the service's workers make the batches by length, if they make them. lengths: of some examples."""
        if not self._coordinated or buckets is None or lengths is None:
            return self
        return replace(self, buckets=buckets.with_boundaries(lengths))

    @property
    def own_batches(self) -> bool:
        """Whether each worker of a cluster makes its own part of a batch; otherwise all read the same and take a part.

        The batches of different workers do not end at the same time, so an epoch must be a number of steps.
        """
        shared = self.service is not None or self.train.input.own_shards
        return shared and self.worker.count > 1 and self.train.steps_per_epoch is not None

    @property
    def batch_size(self) -> int:
        """Examples per batch of the train split, as read by this process."""
        return self.worker.part(self.train.global_batch_size) if self.own_batches else self.train.global_batch_size

    def start(self, batches: int) -> int:
        """Where a training that resumes after some batches starts to read; an unsharded service has no position."""
        return 0 if self.service and self.service.settings.sharding == "off" else batches

    def files(self, all_files: Sequence[str]) -> Sequence[str]:
        """Return the files of the train split for this worker: its share, if the workers share an epoch.

        Raises TrainingError if there are fewer files than workers.
        """
        unshared = self.service is not None and self.service.settings.sharding == "off"
        return self.worker.share(all_files) if self.own_batches and not unshared else all_files

    def stream(self, split: str, files: Sequence[str], packing: Packing, read: Stream) -> Stream:
        """Return the split's examples. read: reads the files in this process."""
        return self._served(self.service, split, files, packing) if self.service else read

    def _served(self, served: DataService, split: str, files: Sequence[str], packing: Packing) -> Stream:
        """Read the split through the service.

        Without sharding, each worker reads the whole train split endlessly. Single passes over it, which `peek` makes,
        are sharded even then.
        """
        one_pass = served.stream(files, packing, in_order=self.train.input.deterministic)
        if split != "train" or served.settings.sharding != "off":
            return one_pass
        read = endless(files, packing, served.reading)  # created here, since the lambdas run while a graph is built
        if served.settings.coordinated:
            shuffle = self.train.input.shuffle
            batches = endless_batches(read, packing, shuffle, self.batch_size, self.buckets, self.worker.count)
            return lambda _: served.endless(batches)
        return lambda seed: one_pass(None) if seed is None else served.endless(read)

    @property
    def shuffle(self) -> int:
        """Examples in the trainer's shuffle: none if the service's workers shuffle."""
        return 0 if self._coordinated else self.train.input.shuffle

    @property
    def _coordinated(self) -> bool:
        return self.service is not None and self.service.settings.coordinated

    def cache(self, chosen: CacheChoice) -> CacheChoice:
        """Adapt the choice: no cache for an endless service, and no disk cache alongside a snapshot."""
        if self.service and self.service.settings.sharding == "off":
            return CacheChoice("none", "each worker of the service reads everything, endlessly")
        return chosen.with_snapshot() if self.snapshots else chosen

    def describe(self) -> str:
        """Describe the sources for the log and the training record; empty if the files are read directly."""
        snapshots = self.snapshots.words() if self.snapshots else ""
        return "".join(f"; {words}" for words in (self.words, snapshots) if words)
