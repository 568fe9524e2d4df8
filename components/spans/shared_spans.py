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
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import version
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


class StoredPart:
    """One part of what is stored of spans, in `<store>/<key of a span>/<part>/`."""

    def __init__(
        self,
        part: str,
        store: Path,
        code: str,
        made_by: Iterable[str],
        keys: Mapping[str, str],
        shared: SharedSpans | None = None,
    ) -> None:
        """
        Args:
            part: what it is, such as `statistics`.
            store: the folder of the span store.
            code: everything that determines the files, other than the span: a digest of code and settings.
            made_by: the packages whose versions determine them too.
            keys: the key of each span, by its name.
            shared: where spans are shared with other machines, if the store does not outlive the run.
        """
        parts = "\0".join([code, *map(version, made_by)])
        self._name = f"{part}-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"
        self._store, self.keys, self._shared = store, keys, shared

    def folder(self, span: str) -> Path:
        return self._store / self.keys[span] / self._name

    def files(self, span: str) -> list[Path]:
        """The files of this part of a span, as they are shared."""
        raise NotImplementedError

    def fetch(self, spans: Iterable[str]) -> None:
        """Copy this part of these spans into the store, if another machine has published it."""
        if self._shared is not None:
            self._shared.fetch([self.keys[span] for span in spans], self._name)

    def publish(self, spans: Iterable[str]) -> None:
        """Offer this part of these spans to other machines."""
        if self._shared is not None:
            for span in spans:
                self._shared.publish(self.keys[span], self._name, self.files(span))


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
