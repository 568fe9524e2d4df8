"""A folder that follows the run logs in an object store, for a TensorBoard that reads the folder.

follower = Follower(store, "s3://bucket/root", Path("/logs"), limit=4_000_000_000)
follower.scan()

Kubeflow stores a Trainer's logs at `<root>/<pipeline>/<run>/<task>/<number>/model_run/train/events...`; TensorBoard
shows them as the run `<pipeline>/<run>/train`.
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
from headrace.pipeline.tensorboard.server import EVENTS, LOGS, PROFILE

PARTIAL = ".partial"
"""The folder of unfinished copies, next to the logs. TensorBoard finds no logs in it: it goes by file names."""
TASK_DEPTH = 2
"""Folders between that of a run and its logs: the task's, and one that Kubeflow adds for each execution."""
SHARE = 9
"""A pause is at least this many times as long as the scan before it, so that a large store is not listed nonstop."""
COMPUTED = 4
"""The limit on the logs divided by the limit on what TensorBoard computes from profiles."""
LONGEST = 600.0
"""The longest pause in seconds after a long scan or a failure of the store."""


@dataclass(frozen=True)
class LogScan:
    """The result of a scan: logs copied and removed, bytes copied, logs in the folder, trainings left out."""

    copied: int
    size: int
    removed: int
    files: int
    left_out: int


class Follower:
    """Keeps the newest logs in a folder, as many as fit. A file in it is always complete.

    Files are compared by size and by the store's modification time, so the copies of an earlier process are reused.
    """

    def __init__(self, store: Store, root: str, folder: Path, limit: int) -> None:
        self._store, self._root, self._folder, self._limit = store, root.rstrip("/"), folder, limit
        shutil.rmtree(folder / PARTIAL, ignore_errors=True)

    def scan(self) -> LogScan:
        """Copy what is new, and remove what is gone or too old. Raises OSError if the store does not answer."""
        listing = self._store.listing(self._root)
        wanted, left_out = select(listing, self._limit)
        files = self._files()
        removed = [name for name in files if is_log(name) and name not in wanted]
        for name in [*removed, *self._obsolete(files, wanted)]:
            self._remove(name)
        missing = [name for name, file in wanted.items() if not self._is_current(name, listing[file])]
        copied = [name for name in missing if self._copy(wanted[name], listing[wanted[name]], name)]
        size = sum(listing[wanted[name]].size for name in copied)
        return LogScan(len(copied), size, len(removed), len(wanted) - len(missing) + len(copied), left_out)

    def _files(self) -> dict[str, int]:
        """The files in the folder with their sizes."""
        sizes = {}
        for path in self._folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    sizes[path.relative_to(self._folder).as_posix()] = path.stat().st_size
        return {name: size for name, size in sizes.items() if not name.startswith(f"{PARTIAL}/")}

    def _obsolete(self, files: Mapping[str, int], wanted: Iterable[str]) -> list[str]:
        """Files of the profile plugin to remove: those of profiles that are gone, or all if they are too large.

        The plugin computes them again when they are needed.
        """
        made = {name: size for name, size in files.items() if not is_log(name)}
        profiles = {PurePosixPath(name).parent for name in wanted}
        too_large = sum(made.values()) > self._limit / COMPUTED
        return [name for name in made if too_large or PurePosixPath(name).parent not in profiles]

    def _is_current(self, name: str, file: StoredObject) -> bool:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            copy = (self._folder / name).stat()
            return copy.st_size == file.size and abs(copy.st_mtime - file.written) < 1
        return False

    def _copy(self, inside: str, file: StoredObject, name: str) -> bool:
        """Copy a file; False if it was removed or rewritten meanwhile, which the next scan takes care of."""
        partial, target = self._folder / PARTIAL / "copy", self._folder / name
        try:
            if not self._store.get(f"{self._root}/{inside}", partial) or partial.stat().st_size != file.size:
                return False
            os.utime(partial, (file.written, file.written))
            target.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(target)
        except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
            return False  # removed since it was listed, or its name is that of another file's folder
        finally:
            partial.unlink(missing_ok=True)
        return True

    def _remove(self, name: str) -> None:
        """Remove a file, and the folders that are then empty."""
        path = self._folder / name
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for folder in path.parents:
                if folder == self._folder:
                    return
                folder.rmdir()


def follow(
    scan: Callable[[], LogScan],
    every: float,
    ended: threading.Event,
    report: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Scan repeatedly until `ended` is set. A failure of the store is reported once, and the scan is retried.

    `every` is the number of seconds between two scans; the pause is longer if a scan takes long.
    """
    trouble, left_out = "", 0
    while True:
        began = clock()
        try:
            result = scan()
        except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
            if str(error) != trouble:
                report(f"the store cannot be read; trying again: {error}")
            trouble = str(error)
        else:
            if result.copied or result.removed or trouble or result.left_out != left_out:
                report(describe(result))
            trouble, left_out = "", result.left_out
        if ended.wait(max(every, min(SHARE * (clock() - began), LONGEST))):
            return


def describe(result: LogScan) -> str:
    from headrace.pipeline.report.formatting import size

    files = f"{result.copied} file{'s' * (result.copied != 1)}"
    line = f"copied {files} ({size(result.size)}), removed {result.removed}; {result.files} in the folder"
    return line + (f"; trainings that did not fit: {result.left_out}" if result.left_out else "")


def select(listing: Mapping[str, StoredObject], limit: int) -> tuple[dict[str, str], int]:
    """Select the logs to show from the files below a root.

    Returns the file for each name in TensorBoard, and the number of trainings that are left out. Trainings are taken
    whole, the newest first, as many as fit into `limit` bytes.
    """
    trainings: dict[str, list[str]] = {}
    for inside in listing:
        if is_log(inside):
            trainings.setdefault(_training(inside), []).append(inside)
    wanted: dict[str, str] = {}
    names, room, left_out = _names(trainings), limit, 0
    for training in sorted(
        trainings, key=lambda one: max(listing[file].written for file in trainings[one]), reverse=True
    ):
        size = sum(listing[file].size for file in trainings[training])
        if size > room:
            left_out += 1
            continue
        room -= size
        wanted |= {f"{names[training]}/{file[len(training) + 1 :]}": file for file in trainings[training]}
    return wanted, left_out


def is_log(inside: str) -> bool:
    """Whether a file is a log, at a path that cannot leave the folder it is copied to."""
    *folders, name = inside.split("/")
    return (EVENTS in name or name.endswith(PROFILE)) and not {"", ".", ".."} & {*folders} and folders[:1] != [PARTIAL]


def _training(inside: str) -> str:
    """The folder of a training's logs."""
    folders = PurePosixPath(inside).parent.parts
    return "/".join(folders[: folders.index(LOGS) + 1] if LOGS in folders else folders)


def _names(trainings: Iterable[str]) -> dict[str, str]:
    """The name of each training: the run's name if the run has only one training."""
    of_run: dict[str, list[str]] = {}
    for training in trainings:
        *above, last = training.split("/")
        whole = "/".join(above) if last == LOGS else training
        run = "/".join(above[:-TASK_DEPTH]) if last == LOGS and len(above) > TASK_DEPTH else whole
        of_run.setdefault(run, []).append(training)
    return {
        training: run if len(those) == 1 else training.removesuffix(f"/{LOGS}")
        for run, those in of_run.items()
        for training in those
    }
