"""A folder that follows the run logs in an object store, for a TensorBoard that reads the folder.

follower = Follower(store, "s3://bucket/root", Path("/logs"), limit=4_000_000_000)
follower.look()
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headrace.pipeline.kubeflow.store import Store, StoredObject
from headrace.pipeline.tensorboard.staged import PARTIAL, is_log, shown

SHARE = 9
"""A pause is at least so many times as long as the look before it: a large store is not listed all the time."""
COMPUTED = 4
"""What TensorBoard computes of profiles may take so many times less than the logs."""
LONGEST = 600.0
"""Seconds; the longest pause that a long look, or a store that does not answer, leads to."""


@dataclass(frozen=True)
class Change:
    """What a look came to. `copied`, `removed`, `files`: logs; `size`: bytes copied; `left_out`: trainings."""

    copied: int
    size: int
    removed: int
    files: int
    left_out: int


class Follower:
    """Makes a folder hold the newest logs, as many as fit. A file there is whole, or is not there.

    A file is known by its length and its time, which is the store's: what a follower before this one copied stays.
    """

    def __init__(self, store: Store, root: str, folder: Path, limit: int) -> None:
        self._store, self._root, self._folder, self._limit = store, root.rstrip("/"), folder, limit
        shutil.rmtree(folder / PARTIAL, ignore_errors=True)

    def look(self) -> Change:
        """Copy what is new, and remove what is gone or too old. Raises OSError where the store does not answer."""
        listing = self._store.listing(self._root)
        wanted, left_out = shown(listing, self._limit)
        files = self._files()
        removed = [name for name in files if is_log(name) and name not in wanted]
        for name in [*removed, *self._computed(files, wanted)]:
            self._remove(name)
        missing = [name for name, file in wanted.items() if not self._has(name, listing[file])]
        copied = [name for name in missing if self._copy(wanted[name], listing[wanted[name]], name)]
        size = sum(listing[wanted[name]].size for name in copied)
        return Change(len(copied), size, len(removed), len(wanted) - len(missing) + len(copied), left_out)

    def _files(self) -> dict[str, int]:
        """What is in the folder, with its size."""
        found = {}
        for path in self._folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found[path.relative_to(self._folder).as_posix()] = path.stat().st_size
        return {name: size for name, size in found.items() if not name.startswith(f"{PARTIAL}/")}

    def _computed(self, files: Mapping[str, int], wanted: Iterable[str]) -> list[str]:
        """What goes of the files that TensorBoard's profile plugin made beside profiles: those of a profile that goes,
        and all of them where they grew too large. It makes them again when they are asked for.
        """
        made = {name: size for name, size in files.items() if not is_log(name)}
        kept = {PurePosixPath(name).parent for name in wanted}
        too_large = sum(made.values()) > self._limit / COMPUTED
        return [name for name in made if too_large or PurePosixPath(name).parent not in kept]

    def _has(self, name: str, found: StoredObject) -> bool:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            told = (self._folder / name).stat()
            return told.st_size == found.size and abs(told.st_mtime - found.written) < 1
        return False

    def _copy(self, inside: str, found: StoredObject, name: str) -> bool:
        """Whether it could be: what went away, or is being written anew, is left for the next look."""
        partial, target = self._folder / PARTIAL / "copy", self._folder / name
        try:
            if not self._store.get(f"{self._root}/{inside}", partial) or partial.stat().st_size != found.size:
                return False
            os.utime(partial, (found.written, found.written))
            target.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(target)
        except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
            return False  # gone since it was listed; or a name that is another file's folder
        finally:
            partial.unlink(missing_ok=True)
        return True

    def _remove(self, name: str) -> None:
        """Remove a file, and the folders that held nothing else."""
        path = self._folder / name
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for folder in path.parents:
                if folder == self._folder:
                    return
                folder.rmdir()


def follow(
    look: Callable[[], Change],
    every: float,
    ended: threading.Event,
    tell: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Look again and again, until `ended`; a store that fails is told, once, and asked again.

    every: seconds between two looks; longer where a look takes long.
    """
    trouble, left_out = "", 0
    while True:
        began = clock()
        try:
            change = look()
        except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
            if str(error) != trouble:
                tell(f"the store cannot be read, and is asked again: {error}")
            trouble = str(error)
        else:
            if change.copied or change.removed or trouble or change.left_out != left_out:
                tell(report(change))
            trouble, left_out = "", change.left_out
        if ended.wait(max(every, min(SHARE * (clock() - began), LONGEST))):
            return


def report(change: Change) -> str:
    """What a look came to, in a line."""
    from headrace.pipeline.report.figures import size

    files = f"{change.copied} file{'s' * (change.copied != 1)}"
    told = f"copied {files} ({size(change.size)}), removed {change.removed}; {change.files} in the folder"
    return told + (f"; trainings without room: {change.left_out}" if change.left_out else "")
