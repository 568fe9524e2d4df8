"""`train.input.snapshot:` the parsed examples as columns on a disk, which later runs with the same input map.

snapshots = Snapshots(folder, transform_graph)
files = snapshots.files("train", records, packing, read)   # of columns, found or written
snapshots.words()                                          # what was found, or written and why

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
from headrace.trainer.input import disk_cache, transformed_columns
from headrace.trainer.input import packing as packing_module
from headrace.trainer.input.disk_cache import write_parsed
from headrace.trainer.input.packing import Packing
from headrace.trainer.input.shuffle import Stream

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
    """Finds, writes and removes the snapshots in a folder."""

    folder: Path
    graph: Path
    """Folder of the Transform component's graph, which determines the meaning of the columns."""
    log: list[str] = field(default_factory=list)

    def words(self) -> str:
        """Describe what was done, and why."""
        return f"snapshot in {self.folder}: {', '.join(self.log)}"

    def files(self, split: str, files: Sequence[str], packing: Packing, read: Stream) -> list[str]:
        """Return the files of columns with the examples of `read`, for `map_parsed`.

        Raises TrainingError if the snapshot cannot be written.
        """
        key = SnapshotKey.of(self.graph, files)
        path = self.folder / f"{split}-{key.digest[:24]}"
        began = time.monotonic()
        manifest, why = self._find_intact(path, split, key)
        if manifest is None:
            manifest = self._write(path, key, read(None), packing)
            self.log.append(f"{split} written in {time.monotonic() - began:.1f} s because {why}")
        else:
            self.log.append(f"{split} read back")
        manifest.touch(path)
        self._clean(split, keep=path)
        return sorted(str(path / name) for name in manifest.files)

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

    def _write(self, path: Path, key: SnapshotKey, batches: tf.data.Dataset, packing: Packing) -> SnapshotManifest:
        partial = self.folder / f".writing-{path.name}-{os.getpid()}-{time.time_ns()}"
        try:
            partial.mkdir(parents=True)
            write_parsed(partial, batches, packing)
            manifest = SnapshotManifest.of(partial, key)
            manifest.write(partial)
            sync_tree(partial)
            try:
                partial.rename(path)
                sync_folder(self.folder)
            except OSError:
                if not path.exists():
                    raise  # otherwise another run has just written the same
        except OSError as error:
            reason = error.strerror or error
            raise TrainingError(f"train.input.snapshot: cannot write to {self.folder}: {reason}") from error
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
        modules = (packing_module, disk_cache, transformed_columns)
        sources = _digest([Path(__file__), *(Path(str(module.__file__)) for module in modules)])
        return cls(
            graph=hashlib.sha256(json.dumps([names, _digest(inside)]).encode()).hexdigest(),
            examples=_digest(map(Path, files)),
            code=hashlib.sha256(f"{tf.__version__} {sources}".encode()).hexdigest(),
        )

    @property
    def digest(self) -> str:
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
