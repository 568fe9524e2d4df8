"""`train.input.snapshot:` the parsed examples on a disk, written once and read back by later runs of the same upstream.

snapshots = Snapshots(folder, transform_graph)
stream = snapshots.stream("train", files, packing, read)   # reads back, or writes first
snapshots.words()                                            # what was read back, or written because of what

A snapshot's folder is named after a digest of all that decides what is in it: the transform graph, the content of the
examples, the code that reads them. It is written beside its place and renamed when it is whole; a checksum of every
file is compared before it is read. Of each split, those used last stay.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf

from headrace.configs.durable import sync_folder, sync_tree
from headrace.configs.errors import TrainingError
from headrace.trainer.input.packing import Packing, plain
from headrace.trainer.input.pipeline import Stream
from headrace.trainer.input.reading import untuned
from headrace.trainer.input.shuffle import by_seed, gathered
from headrace.trainer.input.snapshot_key import Key
from headrace.trainer.input.snapshot_manifest import Manifest

SHARDS = 16
"""Files that the examples are dealt to, batch by batch; an epoch reads them in an order of its own."""
TOGETHER = 8
"""Files that are read at the same time."""
STORED = 8192
"""Examples that are stored together, about: an eighth of the calls that the usual 1024 cost."""
KEPT = 3
"""Snapshots of a split that stay: those used last."""
ABANDONED = 86400.0
"""Seconds after which a folder that is still being written counts as left behind."""


@dataclass
class Snapshots:
    """The snapshots below a folder."""

    folder: Path
    graph: Path
    """Of the Transform component: its graph decides what the columns mean."""
    said: list[str] = field(default_factory=list)

    def words(self) -> str:
        """What was done, and why."""
        return f"snapshot in {self.folder}: {', '.join(self.said)}"

    def stream(self, split: str, files: Sequence[str], packing: Packing, read: Stream) -> Stream:
        """The examples that `read` gives, by way of the snapshot. Raises TrainingError where it cannot be written."""
        key = Key.of(self.graph, files)
        place = self.folder / f"{split}-{key.digest[:24]}"
        began = time.monotonic()
        manifest, why = self._trusted(place, split, key)
        if manifest is None:
            manifest = self._write(place, key, gathered(read(None), packing, STORED))
            self.said.append(f"{split} written in {time.monotonic() - began:.1f} s because {why}")
        else:
            self.said.append(f"{split} read back")
        manifest.touch(place)
        self._clean(split, keep=place)
        spec = read(None).element_spec
        return lambda seed: _load(place, spec, seed)

    def _trusted(self, place: Path, split: str, key: Key) -> tuple[Manifest | None, str]:
        """The snapshot at its place if it is whole, and otherwise why there is none."""
        manifest = Manifest.read(place)
        if manifest is not None and manifest.intact(place):
            return manifest, ""
        if place.exists():
            shutil.rmtree(place)
            return None, "the one there was damaged"
        others = [Manifest.read(other) for other in self._of(split)]
        known = [other for other in others if other is not None]
        return None, f"{key.differs(known[-1].key)} changed" if known else "there was none"

    def _write(self, place: Path, key: Key, batches: tf.data.Dataset) -> Manifest:
        partial = self.folder / f".writing-{place.name}-{os.getpid()}-{time.time_ns()}"
        try:
            partial.mkdir(parents=True)
            untuned(batches.enumerate()).save(
                str(partial / "data"), shard_func=plain(lambda number, _: number % SHARDS)
            )
            manifest = Manifest.of(partial, key)
            manifest.write(partial)
            sync_tree(partial)
            try:
                partial.rename(place)
                sync_folder(self.folder)
            except OSError:
                if not place.exists():
                    raise  # else another run was faster, and wrote the same
        except (OSError, tf.errors.ResourceExhaustedError) as error:
            raise TrainingError(f"train.input.snapshot: cannot write to {self.folder}: {_reason(error)}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return manifest

    def _of(self, split: str) -> list[Path]:
        """The snapshots of a split, least recently used first."""
        found = [path for path in self.folder.glob(f"{split}-*") if path.is_dir()]
        return sorted(found, key=Manifest.last_used)

    def _clean(self, split: str, keep: Path) -> None:
        for old in self._of(split)[:-KEPT]:
            if old != keep:
                shutil.rmtree(old, ignore_errors=True)
        for partial in self.folder.glob(".writing-*"):
            if time.time() - partial.stat().st_mtime > ABANDONED:
                shutil.rmtree(partial, ignore_errors=True)


def _load(place: Path, spec: tuple[tf.TypeSpec, ...], seed: tf.Tensor | None) -> tf.data.Dataset:
    """The packed batches; seed: int64 [2], of the order of the files."""

    def ordered(files: tf.data.Dataset) -> tf.data.Dataset:
        if seed is not None:
            files = by_seed(files, SHARDS, seed[0] * 1_000_003 + seed[1])
        return files.interleave(
            plain(lambda file: file), cycle_length=TOGETHER, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )

    numbered = (tf.TensorSpec([], tf.int64), spec)
    read = tf.data.Dataset.load(str(place / "data"), numbered, reader_func=plain(ordered))
    return read.map(plain(lambda _, packed: packed))


def _reason(error: Exception) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else str(error).splitlines()[0]
