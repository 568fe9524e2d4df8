"""Sharing what is stored of spans between machines whose disks do not outlive a run.

with sharing(objects):                    # around a component, in a pod
    shared = current()                    # in the component; None if the local folder is the only store
    shared.fetch(keys, "columns")         # the keys whose files are now in the folder
    shared.publish(key, "columns", [file])

A part of a span is a set of files in its folder that are written and read together. What cannot be fetched counts as
not stored, and what cannot be published is computed again by the next run, so neither fails a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol


class SharedSpans(Protocol):
    """A place, such as an object store, where machines share parts of spans."""

    def fetch(self, keys: Iterable[str], part: str) -> list[str]:
        """Copy that part of these spans into the folder; the keys of those that are there, complete."""

    def publish(self, key: str, part: str, files: Sequence[Path]) -> None:
        """Offer these files of a span's folder to other machines: all of them or none."""

    def fetch_file(self, name: str) -> None:
        """Copy a file about all spans into the folder, as it was last published."""

    def publish_file(self, name: str) -> None:
        """Offer a file about all spans to other machines, replacing the previous one."""


_CURRENT: ContextVar[SharedSpans | None] = ContextVar("shared_spans", default=None)


def current() -> SharedSpans | None:
    """Where spans are shared while this component runs."""
    return _CURRENT.get()


@contextlib.contextmanager
def sharing(spans: SharedSpans | None) -> Iterator[None]:
    """Let components that run in this block share spans."""
    token = _CURRENT.set(spans)
    try:
        yield
    finally:
        _CURRENT.reset(token)
