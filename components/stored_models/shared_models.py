"""Shared storage of blessed and pushed models, and of predictions, for machines that start each run with an empty disk.

with sharing(models):         # around a component, in a pod
    fetch(folder)             # in the component: bring the files of a model's folder to this disk
    publish(folder, names)    # in the component: upload files that it wrote into the folder

Outside of `sharing`, both do nothing, as the files are on this disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol


class SharedModels(Protocol):
    """The folders of models that machines share."""

    def fetch(self, folder: Path) -> None:
        """Bring the files of a folder to this disk. Raises OSError or RunError if the store fails."""

    def fetch_file(self, file: Path) -> None:
        """Bring one file to this disk, if there is such a file. Raises OSError or RunError if the store fails."""

    def publish(self, folder: Path, names: Iterable[str]) -> None:
        """Replace files of a folder for all machines. Raises OSError or RunError if the store fails."""


_CURRENT: ContextVar[SharedModels | None] = ContextVar("shared_models", default=None)


def fetch(folder: Path) -> None:
    """Bring the files of a model's folder to this disk."""
    if (shared := _CURRENT.get()) is not None:
        shared.fetch(folder)


def fetch_file(file: Path) -> None:
    """Bring one file to this disk, if there is such a file."""
    if (shared := _CURRENT.get()) is not None:
        shared.fetch_file(file)


def publish(folder: Path, names: Iterable[str]) -> None:
    """Upload files of a model's folder, given as paths relative to it."""
    if (shared := _CURRENT.get()) is not None:
        shared.publish(folder, names)


@contextlib.contextmanager
def sharing(models: SharedModels) -> Iterator[None]:
    """Let the components that run in this block share models."""
    token = _CURRENT.set(models)
    try:
        yield
    finally:
        _CURRENT.reset(token)
