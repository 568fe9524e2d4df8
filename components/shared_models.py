"""Where blessed and pushed models lie besides this machine's disk: for machines that begin each run with an empty one.

with sharing(models):         # around a component, in a pod
    fetch(folder)             # in the component: have the files of that folder here; nothing where the disk has them
    publish(folder, names)    # offer files that the component wrote into it
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
        """Have the files of the folder on this disk. Raises OSError or RunError if the store fails."""

    def publish(self, folder: Path, names: Iterable[str]) -> None:
        """Replace files of the folder for all machines. Raises OSError or RunError if the store fails."""


_CURRENT: ContextVar[SharedModels | None] = ContextVar("shared_models", default=None)


def fetch(folder: Path) -> None:
    """Have the files of a model's folder here."""
    if (shared := _CURRENT.get()) is not None:
        shared.fetch(folder)


def publish(folder: Path, names: Iterable[str]) -> None:
    """Let other machines have these files of a model's folder, given as paths in it."""
    if (shared := _CURRENT.get()) is not None:
        shared.publish(folder, names)


@contextlib.contextmanager
def sharing(models: SharedModels) -> Iterator[None]:
    """Let components that run in the block share models."""
    token = _CURRENT.set(models)
    try:
        yield
    finally:
        _CURRENT.reset(token)
