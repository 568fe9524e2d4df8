"""`train.input.snapshot:` the parsed examples on a disk, written once and read back by later runs with the same input.

snapshots = Snapshots(folder, transform_graph)
stream = snapshots.stream("train", files, packing, read)   # reads back, or writes first
snapshots.words()                                            # what was read back, or written and why

The folder of a snapshot is named after a digest of everything that determines its content: the transform graph, the
content of the examples, and the code that parses them. It is written to a temporary folder alongside and renamed when
it is complete; the checksum of every file is verified before it is read. The most recently used snapshots of each split
are kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf

from headrace.common.checksums import file_checksum
from headrace.common.durable import sync_folder, sync_tree
from headrace.common.errors import TrainingError
from headrace.trainer.input import packing as packing_module
from headrace.trainer.input.packing import Packing, no_autograph
from headrace.trainer.input.pipeline import Stream
from headrace.trainer.input.reading import without_autotune
from headrace.trainer.input.shuffle import exact_batches, shuffle_by_seed

SHARDS = 16
"""Files among which the batches are distributed; each epoch reads them in a different order."""
PARALLEL_FILES = 8
"""Files that are read at the same time."""
STORED_BATCH = 8192
"""Approximate number of examples that are stored together: an eighth of the calls that the usual 1024 would need."""
KEEP = 3
"""Number of snapshots per split to keep: those used last."""
ORPHANED_AFTER = 86400.0
"""Seconds after which an unfinished snapshot counts as orphaned."""

MANIFEST = "snapshot.json"
"""The file that is written last and completes a snapshot."""
_KEY_WORDS = {
    "graph": "the transform graph",
    "examples": "the examples",
    "code": "the code that parses them, or TensorFlow",
}


@dataclass
class Snapshots:
    """The snapshots in a folder."""

    folder: Path
    graph: Path
    """Folder of the Transform component's graph, which determines the meaning of the columns."""
    log: list[str] = field(default_factory=list)

    def words(self) -> str:
        """Describe what was done, and why."""
        return f"snapshot in {self.folder}: {', '.join(self.log)}"

    def stream(self, split: str, files: Sequence[str], packing: Packing, read: Stream) -> Stream:
        """Return the examples of `read` by way of the snapshot. Raises TrainingError if it cannot be written."""
        key = SnapshotKey.of(self.graph, files)
        path = self.folder / f"{split}-{key.digest[:24]}"
        began = time.monotonic()
        manifest, why = self._find_intact(path, split, key)
        if manifest is None:
            manifest = self._write(path, key, exact_batches(read(None), packing, STORED_BATCH))
            self.log.append(f"{split} written in {time.monotonic() - began:.1f} s because {why}")
        else:
            self.log.append(f"{split} read back")
        manifest.touch(path)
        self._clean(split, keep=path)
        spec = read(None).element_spec
        return lambda seed: _load(path, spec, seed)

    def _find_intact(self, path: Path, split: str, key: SnapshotKey) -> tuple[SnapshotManifest | None, str]:
        """The snapshot if it is complete and undamaged, and otherwise why there is none."""
        manifest = SnapshotManifest.read(path)
        if manifest is not None and manifest.intact(path):
            return manifest, ""
        if path.exists():
            shutil.rmtree(path)
            return None, "the one there was damaged"
        others = [SnapshotManifest.read(other) for other in self._of(split)]
        known = [other for other in others if other is not None]
        return None, f"{key.differs(known[-1].key)} changed" if known else "there was none"

    def _write(self, path: Path, key: SnapshotKey, batches: tf.data.Dataset) -> SnapshotManifest:
        partial = self.folder / f".writing-{path.name}-{os.getpid()}-{time.time_ns()}"
        shard = no_autograph(lambda number, _: number % SHARDS)
        try:
            partial.mkdir(parents=True)
            without_autotune(batches.enumerate()).save(str(partial / "data"), shard_func=shard)
            manifest = SnapshotManifest.of(partial, key)
            manifest.write(partial)
            sync_tree(partial)
            try:
                partial.rename(path)
                sync_folder(self.folder)
            except OSError:
                if not path.exists():
                    raise  # otherwise another run has just written the same
        except (OSError, tf.errors.ResourceExhaustedError) as error:
            raise TrainingError(f"train.input.snapshot: cannot write to {self.folder}: {_reason(error)}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return manifest

    def _of(self, split: str) -> list[Path]:
        """The snapshots of a split, least recently used first."""
        found = [path for path in self.folder.glob(f"{split}-*") if path.is_dir()]
        return sorted(found, key=SnapshotManifest.last_used)

    def _clean(self, split: str, keep: Path) -> None:
        for old in self._of(split)[:-KEEP]:
            if old != keep:
                shutil.rmtree(old, ignore_errors=True)
        for partial in self.folder.glob(".writing-*"):
            if time.time() - partial.stat().st_mtime > ORPHANED_AFTER:
                shutil.rmtree(partial, ignore_errors=True)


@dataclass(frozen=True)
class SnapshotKey:
    """Digests of everything that determines the content of a snapshot."""

    graph: str
    examples: str
    """Digest of the contents of the files, in their order."""
    code: str

    @classmethod
    def of(cls, graph: Path, files: Sequence[str]) -> SnapshotKey:
        """Compute the key. graph: the Transform component's folder; files: TFRecord files of one split."""
        inside = sorted(path for path in graph.rglob("*") if path.is_file())
        names = [str(path.relative_to(graph)) for path in inside]
        sources = _digest([Path(__file__), Path(str(packing_module.__file__))])
        return cls(
            graph=hashlib.sha256(json.dumps([names, _digest(inside)]).encode()).hexdigest(),
            examples=_digest(map(Path, files)),
            code=hashlib.sha256(f"{tf.__version__} {sources}".encode()).hexdigest(),
        )

    @property
    def digest(self) -> str:
        """Digest of the whole key."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()

    def differs(self, other: SnapshotKey) -> str:
        """Describe what differs from another key."""
        mine, others = dataclasses.asdict(self), dataclasses.asdict(other)
        return " and ".join(words for name, words in _KEY_WORDS.items() if mine[name] != others[name])


@dataclass(frozen=True)
class SnapshotManifest:
    """What a snapshot was made from, and its files."""

    key: SnapshotKey
    files: dict[str, str]
    """Path below the snapshot's folder → size and CRC-32C."""

    @classmethod
    def of(cls, folder: Path, key: SnapshotKey) -> SnapshotManifest:
        """Describe the files in a folder."""
        return cls(key, _checksums(folder))

    @classmethod
    def read(cls, folder: Path) -> SnapshotManifest | None:
        """Read the manifest; None if there is none that can be read."""
        try:
            content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            return cls(SnapshotKey(**content["key"]), dict(content["files"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    @staticmethod
    def last_used(folder: Path) -> float:
        """Time of the last use, in seconds since 1970; 0 if there is no snapshot."""
        try:
            return (folder / MANIFEST).stat().st_mtime
        except OSError:
            return 0.0

    def write(self, folder: Path) -> None:
        """Write the manifest, which completes the snapshot."""
        (folder / MANIFEST).write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")

    def touch(self, folder: Path) -> None:
        """Record that the snapshot is in use now."""
        os.utime(folder / MANIFEST)

    def intact(self, folder: Path) -> bool:
        """Whether all files are unchanged."""
        try:
            return _checksums(folder) == self.files
        except OSError:
            return False


def _load(path: Path, spec: tuple[tf.TypeSpec, ...], seed: tf.Tensor | None) -> tf.data.Dataset:
    """Return the packed batches. seed: int64 [2], for the order of the files."""

    def ordered(files: tf.data.Dataset) -> tf.data.Dataset:
        if seed is not None:
            files = shuffle_by_seed(files, SHARDS, seed[0] * 1_000_003 + seed[1])
        return files.interleave(
            no_autograph(lambda file: file),
            cycle_length=PARALLEL_FILES,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )

    numbered = (tf.TensorSpec([], tf.int64), spec)
    read = tf.data.Dataset.load(str(path / "data"), numbered, reader_func=no_autograph(ordered))
    return read.map(no_autograph(lambda _, packed: packed))


def _reason(error: Exception) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else str(error).splitlines()[0]


def _checksums(folder: Path) -> dict[str, str]:
    inside = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {str(path.relative_to(folder)): f"{path.stat().st_size} {file_checksum(path):08x}" for path in inside}


def _digest(files: Iterable[Path]) -> str:
    """A digest of the contents of files, in their order."""
    parts = []
    for file in files:
        with file.open("rb") as opened:
            parts.append(hashlib.file_digest(opened, "sha256").hexdigest())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
