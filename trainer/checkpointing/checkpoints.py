"""Checkpoints as files: what is kept of one piece of work, the latest few, each whole or not there.

    checkpoints = Checkpoints(folder, keep=2)
    checkpoints.write(Position(epoch=1, step=40, batches=140), {"weights": [array, ...], "note": "any JSON"})
    checkpoints.latest()          # the same again, also in another process

A file is NumPy's .npz: the arrays of the tree, and the rest of it as JSON. It is written under another name, brought to
the disk, and then renamed, so that a process that is killed at any moment leaves the files of before.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.configs.durable import replacing
from headrace.trainer.checkpointing.finite import finite

_ARRAY, _TYPE = "\u0000array", "type"
_TREE = "tree"
PATTERN = "batch-*.npz"
"""Names of files that are whole; in the order of names they follow each other."""
OTHERS = 2
"""How many other pieces of work, the last ones used, are kept beside the one that is done now."""


@dataclass(frozen=True)
class Position:
    """How far a training has come."""

    epoch: int = 0
    """The epoch it is in, from 0."""
    step: int = 0
    """Batches of that epoch that are trained on."""
    batches: int = 0
    """Batches that are trained on, of all epochs."""
    examples: int = 0
    """Examples in them."""
    earlier: int = 0
    """Examples in those of the epochs before."""
    evaluating: bool = False
    """Whether that epoch's batches are all done, and its evaluation is not."""

    @property
    def file(self) -> str:
        """The name of the file that keeps it."""
        return f"batch-{self.batches:012}-{int(not self.evaluating)}{self.epoch:06}.npz"


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was read."""

    file: Path
    position: Position
    tree: dict[str, Any]


@dataclass(frozen=True)
class Checkpoints:
    """Those of one piece of work."""

    folder: Path
    """Of this piece of work alone; its neighbours are those of others."""
    keep: int = 2
    """How many of the latest stay."""

    def write(self, position: Position, tree: Mapping[str, Any]) -> Path:
        """Add one, and remove what is older than the latest `keep`; also later ones, which training did not go on from
        because they were of no use.
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
        """The latest first."""
        return sorted(self.folder.glob(PATTERN), reverse=True)

    def latest(self) -> Saved | None:
        """The latest that can be read, and gone on from; None if there is none."""
        for file in self.files():
            try:
                saved = _read(file)
            except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
                print(f"checkpoint: {file} cannot be read ({error}); an older one is tried", flush=True)
                continue
            if finite(saved.tree):
                return saved
            print(f"checkpoint: {file} holds numbers that are not finite; an older one is tried", flush=True)
        return None

    def clear(self) -> None:
        """Remove them all: the work is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def clear_others(self) -> None:
        """Remove those of other pieces of work, but for the last ones used."""
        if self.folder.parent.is_dir():
            others = [path for path in self.folder.parent.iterdir() if path.is_dir() and path != self.folder]
            for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[OTHERS:]:
                shutil.rmtree(path, ignore_errors=True)


def _read(file: Path) -> Saved:
    with np.load(file, allow_pickle=False) as arrays:
        told = json.loads(arrays[_TREE].tobytes())
        return Saved(file, Position(**told["position"]), _with_arrays(told["tree"], arrays))


def _without_arrays(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree as JSON holds it, with the names of its arrays in their place."""
    if isinstance(tree, Mapping):
        return {name: _without_arrays(value, arrays) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_without_arrays(value, arrays) for value in tree]
    if isinstance(tree, np.ndarray):
        name = f"array_{len(arrays)}"
        plain = tree.dtype.kind in "biufc"
        arrays[name] = tree if plain else tree.view(f"u{tree.dtype.itemsize}")  # bfloat16, which NumPy does not know
        return {_ARRAY: name, _TYPE: None if plain else tree.dtype.name}
    return tree.item() if isinstance(tree, np.generic) else tree  # Keras counts in NumPy's numbers here and there


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
