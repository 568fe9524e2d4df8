"""Where what is kept of spans lies besides the folder of the store: for machines whose disk is gone after each run.

with sharing(objects):                    # around a component, in a pod
    shared = current()                    # in the component; None where the folder alone is kept
    shared.fetch(keys, "columns")         # the keys whose files are now in the folder
    shared.publish(key, "columns", [file])

A part of a span is a set of files in its folder that is written at once and read at once. What cannot be fetched counts
as not kept, and what cannot be published is made again by the next run, so neither fails a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol


class SharedSpans(Protocol):
    """The parts of spans that machines share."""

    def fetch(self, keys: Iterable[str], part: str) -> list[str]:
        """Have that part of spans in the folder; the keys of those that are there, whole."""

    def publish(self, key: str, part: str, files: Sequence[Path]) -> None:
        """Offer these files of a span's folder to other machines, all or none of them."""

    def fetch_file(self, name: str) -> None:
        """Have a file about all spans in the folder, as it was published last."""

    def publish_file(self, name: str) -> None:
        """Offer a file about all spans to other machines, in the place of what was there."""


_CURRENT: ContextVar[SharedSpans | None] = ContextVar("shared_spans", default=None)


def current() -> SharedSpans | None:
    """What is shared while this component runs."""
    return _CURRENT.get()


@contextlib.contextmanager
def sharing(spans: SharedSpans | None) -> Iterator[None]:
    """Let components that run in the block share spans."""
    token = _CURRENT.set(spans)
    try:
        yield
    finally:
        _CURRENT.reset(token)
