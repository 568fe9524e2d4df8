"""A training's checkpoints in the object store: a pod's disk is lost with it, and the next pod continues from them.

with mirrored(Path("/minio/bucket/taxi/checkpoints"), "minio://bucket/taxi/checkpoints", store):
    ...     # files that appear in the folder are uploaded while training runs; removed files are removed there too

The training knows only the folder, in which each piece of work has a folder of its own
(`headrace.trainer.checkpointing`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from headrace.pipeline.kubeflow.store import Store
from headrace.trainer.checkpointing.checkpoints import PATTERN

logger = logging.getLogger(__name__)

SECONDS = 0.5
"""Interval between scans of the folder."""


@contextlib.contextmanager
def mirrored(folder: Path, uri: str, store: Store) -> Iterator[None]:
    """Fetch the checkpoints that a pod continues from, and keep the store up to date until the block ends.

    A failure of the store is logged and fails nothing: the training is worth more than its checkpoints.
    """
    mirror = _Mirror(folder, uri, store)
    mirror.fetch()
    ended = threading.Event()
    thread = threading.Thread(target=mirror.keep_up, args=(ended,), name="checkpoints-to-store", daemon=True)
    thread.start()  # the main thread gets the signals, so none interrupts a copy
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass
class _Mirror:
    """stored: names in the store, for each piece of work that was fetched or written; fetched: names that were
    downloaded; synced: those, and the names that were uploaded.
    """

    folder: Path
    uri: str
    store: Store
    stored: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)
    synced: set[str] = field(default_factory=set)
    failing: bool = False

    def fetch(self) -> None:
        """Fetch the latest checkpoint of each piece of work, the one that was used last at the end."""
        try:
            found = self.store.files(self.uri)
            complete = sorted(name for name in found if PurePosixPath(name).match(f"*/{PATTERN}"))
            latest = {_work(name): name for name in complete}
            for work, name in sorted(latest.items(), key=lambda item: found[item[1]]):
                if self.store.get(f"{self.uri}/{name}", self.folder / name):
                    self.stored |= {one for one in complete if _work(one) == work}
                    self.fetched.add(name)
                    self.synced.add(name)
                    os.utime(self.folder / work, (found[name], found[name]))
                    logger.info(f"checkpoint: fetched {self.uri}/{name}")
        except OSError as error:
            self._report(error)

    def keep_up(self, ended: threading.Event) -> None:
        """Upload new files and remove deleted ones, until the event is set and once more after that."""
        while not ended.wait(SECONDS):
            self._sync()
        self._sync()

    def _sync(self) -> None:
        try:
            here = {str(path.relative_to(self.folder)): path for path in self.folder.glob(f"*/{PATTERN}")}
            for name in sorted(here.keys() - self.synced, reverse=True):
                with contextlib.suppress(FileNotFoundError):  # an older one that was removed in the meantime
                    self.store.put(here[name], f"{self.uri}/{name}")
                    self.stored.add(name)
                    self.synced.add(name)
            gone = self.stored - here.keys()
            doomed = [one for one in gone if one in self.synced or not self._may_be_needed(one, here)]
            for name in sorted(doomed):
                self.store.remove(f"{self.uri}/{name}")
                self.stored.discard(name)
                self.synced.discard(name)
            for work in sorted({_work(name) for name in doomed} - {_work(name) for name in self.stored}):
                self.store.remove_if_empty(f"{self.uri}/{work}")
            self.failing = False
        except OSError as error:
            self._report(error)

    def _may_be_needed(self, name: str, here: dict[str, Path]) -> bool:
        """Whether an older checkpoint, which was not fetched, is the fallback: until a newer one than the fetched one
        exists.
        """
        of_work = {one for one in here if _work(one) == _work(name)}
        return bool(of_work) and of_work <= self.fetched

    def _report(self, error: OSError) -> None:
        if not self.failing:
            logger.warning(f"checkpoint: not stored in {self.uri}, so a new pod would train from the start: {error}")
        self.failing = True


def _work(name: str) -> str:
    """The folder of a piece of work."""
    return name.partition("/")[0]
