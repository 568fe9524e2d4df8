"""Checkpoint files: the latest few of one training, each of them complete or absent.

    checkpoints = Checkpoints(folder, keep=2)
    checkpoints.write(TrainingPosition(epoch=1, step=40, batches=140), {"weights": [array, ...], "note": "any JSON"})
    checkpoints.latest()          # the same, in another process as well

A file is NumPy's .npz: the arrays of the tree, and the rest of it as JSON. It is written under another name, flushed to
disk, and then renamed, so that a process that is killed at any moment leaves the previous files.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np

from headrace.common.durable import replacing
from headrace.common.errors import TrainingError

logger = logging.getLogger(__name__)

StateTree = dict[str, Any]
"""Names to JSON values, NumPy arrays, and lists and mappings of them."""
_ARRAY, _TYPE = "\u0000array", "type"
_TREE = "tree"
PATTERN = "batch-*.npz"
"""Names of complete files; sorted by name, they are in order."""
OTHERS = 2
"""Number of other trainings whose checkpoints are kept alongside: the most recently used."""


@dataclass(frozen=True)
class TrainingPosition:
    """How far a training has progressed."""

    epoch: int = 0
    """The current epoch, from 0."""
    step: int = 0
    """Batches of that epoch that were trained on."""
    batches: int = 0
    """Batches that were trained on in all epochs."""
    examples: int = 0
    """Examples in those batches."""
    earlier: int = 0
    """Examples in the batches of earlier epochs."""
    evaluating: bool = False
    """Whether that epoch's training is finished and its evaluation is not."""

    @property
    def file(self) -> str:
        """The name of the checkpoint file."""
        return f"batch-{self.batches:012}-{int(not self.evaluating)}{self.epoch:06}.npz"


@dataclass(frozen=True)
class SavedCheckpoint:
    file: Path
    position: TrainingPosition
    tree: StateTree


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one training."""

    folder: Path
    """A folder for this training only; its siblings belong to other trainings."""
    keep: int = 2
    """How many of the latest to keep."""

    def write(self, position: TrainingPosition, tree: Mapping[str, Any]) -> Path:
        """Add a checkpoint, and remove all but the latest `keep`.

        Later ones are removed as well: training did not resume from them because they were unusable.
        """
        arrays: dict[str, np.ndarray] = {}
        text = json.dumps({"position": asdict(position), "tree": _without_arrays(tree, arrays)})
        file = self.folder / position.file
        with replacing(file) as partial, partial.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **{_TREE: np.frombuffer(text.encode(), np.uint8)}, **arrays)
        later = [other for other in self.files() if other > file]
        older = [other for other in self.files() if other <= file]
        for other in (*later, *older[self.keep :]):
            other.unlink(missing_ok=True)
        return file

    def files(self) -> list[Path]:
        """The files, latest first."""
        return sorted(self.folder.glob(PATTERN), reverse=True)

    def latest(self) -> SavedCheckpoint | None:
        """The latest checkpoint that is readable and finite; None if there is none."""
        for file in self.files():
            try:
                saved = _read(file)
            except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
                logger.warning(f"checkpoint: {file} cannot be read ({error}); trying an older one")
                continue
            if is_finite(saved.tree):
                return saved
            logger.warning(f"checkpoint: {file} contains non-finite numbers; trying an older one")
        return None

    def clear(self) -> None:
        """Remove all checkpoints, once the training is finished."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def part(self, number: int) -> Checkpoints:
        """The checkpoints of one of several trainings that belong to this one."""
        return Checkpoints(self.folder.with_name(f"{self.folder.name}.{number}"), self.keep)

    def clear_parts(self) -> None:
        """Remove the checkpoints of the trainings that belong to this one."""
        for path in self.folder.parent.glob(f"{self.folder.name}.*"):
            shutil.rmtree(path, ignore_errors=True)

    def clear_others(self) -> None:
        """Remove the checkpoints of other trainings, except the most recently used. Parts go with their training."""
        works: dict[str, list[Path]] = {}
        for path in self.folder.parent.glob("*/"):
            works.setdefault(path.name.partition(".")[0], []).append(path)
        works.pop(self.folder.name.partition(".")[0], None)
        for parts in sorted(works.values(), key=lambda each: max(map(_changed, each)), reverse=True)[OTHERS:]:
            for path in parts:
                shutil.rmtree(path, ignore_errors=True)


def _changed(path: Path) -> float:
    return path.stat().st_mtime


class CheckpointWriter:
    """A thread that writes one checkpoint at a time."""

    def __init__(self, checkpoints: Checkpoints, last: Path | None = None) -> None:
        """last: the checkpoint that training resumes from."""
        self._checkpoints, self._last = checkpoints, last
        self._queue: Queue[tuple[TrainingPosition, StateTree] | None] = Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def write(self, position: TrainingPosition, tree: StateTree) -> None:
        """Start writing once the previous checkpoint is written. Raises TrainingError if that failed."""
        self.wait()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
            self._thread.start()
        self._queue.put((position, tree))

    def wait(self) -> None:
        """Wait until everything is written. Raises TrainingError if that failed."""
        self._queue.join()
        error, self._error = self._error, None
        if isinstance(error, OSError):
            raise TrainingError(
                f"the checkpoint in {self._checkpoints.folder} could not be written: {error}. Free disk space or fix"
                " the permissions there, or set `train.checkpoint.every_steps: null`"
            ) from error
        if error is not None:
            raise error

    def last(self) -> Path | None:
        """The latest checkpoint that was written or resumed from."""
        self.wait()
        return self._last

    def last_saved(self) -> SavedCheckpoint | None:
        """Read the latest checkpoint."""
        self.wait()
        return self._checkpoints.latest()

    def close(self) -> None:
        """Wait until everything is written, and end the thread."""
        if self._thread is not None:
            self._queue.join()
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                position, tree = work
                if is_finite(tree):
                    self._last = self._checkpoints.write(position, tree)
            except Exception as error:
                self._error = error
            finally:
                self._queue.task_done()
        self._queue.task_done()


def is_finite(tree: Mapping[str, Any]) -> bool:
    """Whether the weights and the optimizer's variables in a captured state are finite.

    A non-finite number spoils all steps that follow.
    """
    return all_finite(tree.get("model", [])) and optimizer_is_finite(tree.get("optimizer", []))


def optimizer_is_finite(values: Iterable[np.ndarray]) -> bool:
    """Whether the optimizer's variables are finite, except scalars: the lowest loss so far starts at infinity."""
    return all_finite(value for value in values if value.ndim)


def all_finite(values: Iterable[np.ndarray]) -> bool:
    """Whether no number is NaN or infinite."""
    floats = (value for value in values if value.dtype.kind in "fV")  # V: bfloat16, which NumPy does not know
    return all(bool(np.isfinite(value.astype(np.float32)).all()) for value in floats)


def _read(file: Path) -> SavedCheckpoint:
    with np.load(file, allow_pickle=False) as arrays:
        content = json.loads(arrays[_TREE].tobytes())
        position = TrainingPosition(**content["position"])
        return SavedCheckpoint(file, position, _with_arrays(content["tree"], arrays))


def _without_arrays(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Replace the arrays of a tree by their names, so that the rest is JSON."""
    if isinstance(tree, Mapping):
        return {name: _without_arrays(value, arrays) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_without_arrays(value, arrays) for value in tree]
    if isinstance(tree, np.ndarray):
        name = f"array_{len(arrays)}"
        plain = tree.dtype.kind in "biufc"
        arrays[name] = tree if plain else tree.view(f"u{tree.dtype.itemsize}")  # bfloat16, which NumPy cannot store
        return {_ARRAY: name, _TYPE: None if plain else tree.dtype.name}
    return tree.item() if isinstance(tree, np.generic) else tree  # Keras uses NumPy scalars in some places


def _with_arrays(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(tree, list):
        return [_with_arrays(value, arrays) for value in tree]
    if not isinstance(tree, dict):
        return tree
    if _ARRAY in tree:
        found = arrays[tree[_ARRAY]]
        return found if tree[_TYPE] is None else found.view(_extended(tree[_TYPE]))
    return {name: _with_arrays(value, arrays) for name, value in tree.items()}


def _extended(name: str) -> Any:
    import ml_dtypes

    return getattr(ml_dtypes, name)
