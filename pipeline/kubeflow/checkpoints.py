"""A training's checkpoints in the object store: a pod's disk goes with the pod, and the next pod goes on from them.

with mirrored(Path("/minio/bucket/taxi/checkpoints"), "minio://bucket/taxi/checkpoints", store):
    ...     # what is written there is copied to the store while training goes on; what is removed, is removed there

Training only knows the folder, in which each piece of work has one of its own (`headrace.trainer.checkpointing`).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from headrace.pipeline.kubeflow.store import Store
from headrace.trainer.checkpointing.checkpoints import PATTERN

SECONDS = 0.5
"""Between two looks at the folder."""


@contextlib.contextmanager
def mirrored(folder: Path, uri: str, store: Store) -> Iterator[None]:
    """Fetch what the store has for a pod to go on from, and keep the store up to date until the end of the block.

    A store that fails is told of in the log, and fails nothing: checkpoints are worth less than the training.
    """
    mirror = _Mirror(folder, uri, store)
    mirror.fetch()
    ended = threading.Event()
    thread = threading.Thread(target=mirror.keep_up, args=(ended,), name="checkpoints-to-store", daemon=True)
    thread.start()  # so a signal, which the main thread gets, never breaks off a copy
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass
class _Mirror:
    """`there`: names in the store, of works of which the latest was `fetched`; `held`: that, and what was written."""

    folder: Path
    uri: str
    store: Store
    there: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    failing: bool = False

    def fetch(self) -> None:
        """The latest of each piece of work, the last one used as the last."""
        try:
            found = self.store.files(self.uri)
            whole = sorted(name for name in found if PurePosixPath(name).match(f"*/{PATTERN}"))
            latest = {_work(name): name for name in whole}
            for work, name in sorted(latest.items(), key=lambda item: found[item[1]]):
                if self.store.get(f"{self.uri}/{name}", self.folder / name):
                    self.there |= {one for one in whole if _work(one) == work}
                    self.fetched.add(name)
                    self.held.add(name)
                    os.utime(self.folder / work, (found[name], found[name]))
                    print(f"checkpoint: fetched {self.uri}/{name}", flush=True)
        except OSError as error:
            self._failed(error)

    def keep_up(self, ended: threading.Event) -> None:
        """Copy what is new and remove what is gone, and once more after the end."""
        while not ended.wait(SECONDS):
            self._sweep()
        self._sweep()

    def _sweep(self) -> None:
        try:
            here = {str(path.relative_to(self.folder)): path for path in self.folder.glob(f"*/{PATTERN}")}
            for name in sorted(here.keys() - self.held, reverse=True):
                with contextlib.suppress(FileNotFoundError):  # an older one that was removed meanwhile
                    self.store.put(here[name], f"{self.uri}/{name}")
                    self.there.add(name)
                    self.held.add(name)
            doomed = [one for one in self.there - here.keys() if one in self.held or not self._may_be_needed(one, here)]
            for name in sorted(doomed):
                self.store.remove(f"{self.uri}/{name}")
                self.there.discard(name)
                self.held.discard(name)
            for work in sorted({_work(name) for name in doomed} - {_work(name) for name in self.there}):
                self.store.remove_if_empty(f"{self.uri}/{work}")
            self.failing = False
        except OSError as error:
            self._failed(error)

    def _may_be_needed(self, name: str, here: dict[str, Path]) -> bool:
        """One that was not fetched, as it is older: while there is nothing newer than what was."""
        of_work = {one for one in here if _work(one) == _work(name)}
        return bool(of_work) and of_work <= self.fetched

    def _failed(self, error: OSError) -> None:
        if not self.failing:
            print(f"checkpoint: not kept in {self.uri}, so a new pod would train from the start: {error}", flush=True)
        self.failing = True


def _work(name: str) -> str:
    """The folder of a piece of work."""
    return name.partition("/")[0]
