"""How the input pipeline uses the machine: what changes how fast batches come, and never what is in them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import tensorflow as tf

from headrace.configs.input import InputConfig
from headrace.trainer.input.packing import Packing, plain

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
READ_BUFFER = 8 << 20
"""Bytes of a file that are read at a time."""
AHEAD = 16
"""Batches made ahead, where nothing is said of them."""
AHEAD_BYTES = 64 << 20
"""What they may take, if they are more than two."""


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same without tf.data's autotuning, for whose thread the deletion of an iterator waits, with Python's lock.

    That thread has a look after 10 ms, 20, 40 and so on up to a minute. The iterator's end wakes it, but is marked
    behind that (`CancellationManager::StartCancel` of TensorFlow calls its callbacks first): if it is awake too soon,
    it sees nothing of it, and sleeps on for about as long as the iterator has lived. On busy cores 12 of 40 iterators
    took up to 60 s to be deleted; without autotuning, 5 ms at most. What is left to tf.data stays as autotuning would
    begin: `num_parallel_calls` are as many as there are threads, up to 16. A `prefetch` left to it has no limit now.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


@dataclass(frozen=True)
class Reading:
    """Settings of `train.input`."""

    read_batch: int = 1024
    """Records that are read and parsed at a time."""
    open_files: int = 16
    """Files that are read at the same time, at most."""
    deterministic: bool = True
    """Whether batches come in an order that is the same each time."""
    threads: int | None = None
    """Threads of its own; None: it shares TensorFlow's."""
    prefetch: int = AHEAD
    """Batches made ready ahead; -1: as many as autotuning chooses."""
    autotune: bool = False
    """Whether tf.data's autotuning chooses what is left to it, while it runs."""
    device: str | None = None
    """Where batches are wanted, such as `GPU:0`; None: on the CPU, or wherever Keras takes them."""

    @classmethod
    def of(cls, config: InputConfig, device: str | None = None, batch_bytes: int = 0) -> Reading:
        """As the config says. batch_bytes: that a batch takes, about."""
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
        """Batches that are parsed, or loaded, at the same time: where nobody tunes, tf.data itself stops at 16."""
        return self.threads or (tf.data.AUTOTUNE if self.autotune else CORES)

    def from_memory(self, loaded: bool) -> Reading:
        """For examples in memory: threads of its own keep the fetching away from the training step. One is enough,
        unless batches are also loaded, such as images from their bytes.
        """
        return replace(self, threads=self.threads or (max(CORES - 1, 1) if loaded else 1))

    def packed(self, paths: tf.data.Dataset, packing: Packing, files: int, gzip: bool) -> tf.data.Dataset:
        """The parsed examples of so many TFRecord files in packed batches of about `read_batch`."""
        compression = "GZIP" if gzip else ""
        records = paths.interleave(
            plain(lambda path: tf.data.TFRecordDataset(path, compression, READ_BUFFER).batch(self.read_batch)),
            cycle_length=max(min(self.open_files, files), 1),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=self.deterministic,
        )
        return records.map(plain(packing.parse), num_parallel_calls=self.calls, deterministic=self.deterministic)

    def finished(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Batches that are made ready ahead, on the device if it can hold them; the last of all."""
        options = tf.data.Options()
        options.deterministic = self.deterministic
        if self.threads is not None:
            options.threading.private_threadpool_size = self.threads
        options.autotune.enabled = self.autotune
        batches = batches.with_options(options)
        ahead = self.prefetch
        batches = batches.prefetch(ahead) if ahead else batches
        if self.device is None or not all(map(_fits_device, tf.nest.flatten(batches.element_spec))):
            return batches
        buffer = None if ahead == tf.data.AUTOTUNE else max(ahead, 1)
        return batches.apply(tf.data.experimental.prefetch_to_device(self.device, buffer))


def _fits_device(spec: tf.TypeSpec) -> bool:
    """Neither strings nor ragged or sparse tensors are copied ahead."""
    return isinstance(spec, tf.TensorSpec) and spec.dtype != tf.string


PLAIN_READING = Reading()
"""As the settings are by default."""
