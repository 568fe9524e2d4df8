"""How the input pipeline uses the machine, which determines the speed of batches and never their content."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from headrace.common.errors import TrainingError
from headrace.configs.schema.train import InputConfig
from headrace.trainer.input.packing import Packing, no_autograph

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
READ_BUFFER = 8 << 20
"""Bytes of a file that are read at a time."""
RECORD_BUFFER = 256 << 10
"""Bytes to read at a time from a single file; tf.data's default."""
AHEAD = 16
"""Batches that are prefetched by default."""
AHEAD_BYTES = 64 << 20
"""Maximum size of prefetched batches, unless there are at most two."""


def records_of(path: str | tf.Tensor, compression: str | None = None, buffer: int = RECORD_BUFFER) -> tf.data.Dataset:
    """The records of one TFRecord file: string [].

    As `tf.data.TFRecordDataset`, which traces a function for each file that it opens. That takes longer than reading a
    small one.

    Args:
        path: The file; string [].
        compression: `GZIP`, or "" for none; None: as its name says.
        buffer: Bytes to read at a time.
    """
    if compression is None:
        compression = "GZIP" if str(path).endswith(".gz") else ""
    variant = tf.raw_ops.TFRecordDataset(filenames=path, compression_type=compression, buffer_size=buffer)
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))


def without_autotune(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Disable tf.data's autotuning, for whose thread the deletion of an iterator waits while holding Python's lock.

    That thread polls after 10 ms, 20, 40 and so on up to a minute. The end of the iterator wakes it, but is only
    recorded afterwards (`CancellationManager::StartCancel` of TensorFlow calls its callbacks first): if the thread
    wakes too early, it does not notice the end, and sleeps for about as long as the iterator has existed. On busy cores
    12 of 40 iterators took up to 60 s to be deleted; without autotuning at most 5 ms. AUTOTUNE parameters keep the
    values with which autotuning would start: `num_parallel_calls` is the number of threads, up to 16. A `prefetch` with
    AUTOTUNE has no limit then.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


@dataclass(frozen=True)
class InputOptions:
    """Settings of `train.input` that affect speed."""

    read_batch: int = 1024
    """Records that are read and parsed at a time."""
    open_files: int = 16
    """Maximum number of files that are read at the same time."""
    deterministic: bool = True
    """Whether batches come in a reproducible order."""
    threads: int | None = None
    """Private threads; None: share TensorFlow's."""
    prefetch: int = AHEAD
    """Batches to prefetch; -1: as many as autotuning chooses."""
    autotune: bool = False
    """Whether tf.data's autotuning chooses AUTOTUNE parameters at run time."""
    device: str | None = None
    """Where to prefetch batches, such as `GPU:0`; None: on the CPU, or wherever Keras takes them."""

    @classmethod
    def of(cls, config: InputConfig, device: str | None = None, batch_bytes: int = 0) -> InputOptions:
        """Take the options from the config. batch_bytes: approximate size of a batch."""
        threads = None if config.threads == "auto" else config.threads
        fitting = min(max(AHEAD_BYTES // max(batch_bytes, 1), 2), AHEAD)
        ahead = tf.data.AUTOTUNE if config.autotune else fitting
        prefetch = ahead if config.prefetch == "auto" else config.prefetch
        return cls(
            read_batch=config.read_batch,
            open_files=config.open_files,
            deterministic=config.deterministic,
            threads=threads,
            prefetch=prefetch,
            autotune=config.autotune,
            device=device,
        )

    @property
    def calls(self) -> int:
        """Batches that are parsed or loaded in parallel; without autotuning tf.data would stop at 16."""
        return self.threads or (tf.data.AUTOTUNE if self.autotune else CORES)

    def from_memory(self, loaded: bool) -> InputOptions:
        """Adapt to examples in memory: private threads keep the fetching away from the training step.

        One is enough, unless batches are also loaded, such as images from their bytes.
        """
        return replace(self, threads=self.threads or (max(CORES - 1, 1) if loaded else 1))

    def packed(self, paths: tf.data.Dataset, packing: Packing, files: int, gzip: bool) -> tf.data.Dataset:
        """Read and parse TFRecord files into packed batches of about `read_batch` examples.

        Args:
            paths: The paths of the files.
            packing: The layout of packed batches.
            files: Number of files.
            gzip: Whether they are compressed.
        """
        compression = "GZIP" if gzip else ""
        records = paths.interleave(
            no_autograph(lambda path: records_of(path, compression, READ_BUFFER).batch(self.read_batch)),
            cycle_length=max(min(self.open_files, files), 1),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=self.deterministic,
        )
        parse = no_autograph(packing.parse)
        return records.map(parse, num_parallel_calls=self.calls, deterministic=self.deterministic)

    def finished(self, batches: tf.data.Dataset, *, is_ahead: bool = False) -> tf.data.Dataset:
        """Apply the options and prefetch, on the device if it can hold the batches; the last stage of all.

        is_ahead: whether what batches are cut from is prefetched already. Each batch that passes from thread to thread
        takes about 15 microseconds of a processor.
        """
        options = tf.data.Options()
        options.deterministic = self.deterministic
        if self.threads is not None:
            options.threading.private_threadpool_size = self.threads
        options.autotune.enabled = self.autotune
        batches = batches.with_options(options)
        ahead = self.prefetch
        batches = batches.prefetch(ahead) if ahead and not is_ahead else batches
        if self.device is None or not all(map(_fits_device, tf.nest.flatten(batches.element_spec))):
            return batches
        buffer = None if ahead == tf.data.AUTOTUNE else max(ahead, 1)
        return batches.apply(tf.data.experimental.prefetch_to_device(self.device, buffer))


def _fits_device(spec: tf.TypeSpec) -> bool:
    """Strings, ragged and sparse tensors cannot be prefetched to a device."""
    return isinstance(spec, tf.TensorSpec) and spec.dtype != tf.string


DEFAULT_INPUT_OPTIONS = InputOptions()


@dataclass(frozen=True)
class ClusterWorker:
    """One of the processes that train a model together."""

    number: int = 0
    """The chief is 0."""
    count: int = 1
    """Number of workers."""
    training: str = ""
    """A name that all workers share and no other training has."""
    has_share: bool = False
    """Whether this process only sees its share of the train split's files."""

    def part(self, batch_size: int) -> int:
        """Return the examples of a batch that this worker makes. Raises TrainingError if it cannot be divided."""
        if batch_size % self.count:
            raise TrainingError(
                f"train.batch_size: {batch_size:,} is not divisible by the {self.count} workers of TF_CONFIG, which"
                f" each make their part of a batch; set it to {batch_size // self.count * self.count or self.count:,}"
            )
        return batch_size // self.count

    def share(self, files: Sequence[str]) -> Sequence[str]:
        """Return this worker's files of the train split. Raises TrainingError if there are fewer than workers."""
        if self.has_share:
            return files
        if len(files) < self.count:
            raise TrainingError(
                f"{self.count} workers cannot share the {len(files)} files of the train split. Set `data.shards` to"
                f" {self.count} or more, or remove train.steps_per_epoch and train.input.own_shards"
            )
        return files[self.number :: self.count]


SINGLE_WORKER = ClusterWorker()
