"""What a pipeline's folder holds of runs that nobody needs any more, and taking it away.

    found = plan(folders, keep=10, older_than=time.time())
    found.freed                        # bytes on the disk
    remove(folders, found)

Kept are the newest runs, and the one whose model was blessed last. Needed is all that those name, whichever run made
it, so that they can be looked at and what they did is reused; the newest blessed models, and what they were compared
with; the statistics that drift is measured from; and what is kept of the spans that those runs learned from. The caller
holds the lock, so that no run goes on.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headrace.components.deploy.registry import Entry, Registry
from headrace.components.example_gen.span_store import kept_with
from headrace.components.trigger.decision import TrainingRecord
from headrace.configs.errors import RunError
from headrace.pipeline.folders import Folders
from headrace.pipeline.local.record import RunRecord, Status

Place = tuple[str, ...]
"""The component, the output and the run of an artifact: the last three names of its folder."""


@dataclass(frozen=True)
class Run:
    """One run's folder. `record`: None where it cannot be read; started: Unix seconds."""

    folder: Path
    record: RunRecord | None
    started: float

    @property
    def made_a_model(self) -> bool:
        """Whether it went to its end, and not to an early one for want of new data."""
        return self.record is not None and self.record.status is Status.DONE and self.record.ended is None

    def uris(self) -> Iterator[str]:
        """Of all that it has, whichever run made it."""
        for node in self.record.nodes if self.record else ():
            yield from (artifact.uri for artifact in node.outputs.values())

    def spans(self) -> Iterator[str]:
        """The keys of the spans that it learned from."""
        for node in self.record.nodes if self.record else ():
            for artifact in node.outputs.values():
                yield from json.loads(str(artifact.properties.get("spans") or "{}")).values()


@dataclass(frozen=True)
class Plan:
    """The runs that stay, and the folders that go, each once."""

    kept: Sequence[Run]
    runs: Sequence[Path]
    artifacts: Sequence[Path]
    spans: Sequence[Path]
    checkpoints: Sequence[Path]

    @property
    def folders(self) -> list[Path]:
        """All that goes; the records of runs last, so that what is left by a kill is found again."""
        return [*self.artifacts, *self.spans, *self.checkpoints, *self.runs]

    @cached_property
    def freed(self) -> int:
        """Bytes on the disk. A file that keeps a name elsewhere frees none."""
        states = [file.lstat() for folder in self.folders for file in _files(folder)]
        names = Counter((state.st_dev, state.st_ino) for state in states)
        whole = {(state.st_dev, state.st_ino): state for state in states}
        return sum(state.st_blocks * 512 for known, state in whole.items() if names[known] == state.st_nlink)


def plan(folders: Folders, keep: int, older_than: float) -> Plan:
    """What goes: all but the newest `keep` runs that made a model and whatever is newer than the oldest of them, runs
    that began at `older_than` (Unix seconds) or later, the run of the newest blessed model, and what those need.
    RunError if that cannot be told.
    """
    blessed = Registry.read(folders.registry).models
    runs = sorted(_runs(folders), key=lambda run: (run.started, run.folder.name))
    made = [run.started for run in runs if run.made_a_model]
    since = min(older_than, made[-keep]) if len(made) > keep else 0.0
    served = {_place(entry.uri)[-1] for entry in blessed[-1:]}
    kept = [run for run in runs if run.started >= since or run.folder.name in served]
    if since and (unread := [run.folder for run in kept if run.record is None]):
        raise RunError(
            f"{unread[0]}: what this run needs cannot be told, as its run.json is damaged or of another version.\n"
            "  Remove that folder; what other runs need stays all the same."
        )
    names = {run.folder.name for run in kept}
    named = [
        *_named(blessed[-keep:], TrainingRecord.read(folders.trained)),
        *(uri for run in kept for uri in run.uris()),
    ]
    needed = {_place(uri) for uri in named}
    artifacts = sorted(path for path in folders.artifacts.glob("*/*/*/") if path.name not in names)
    keys = {kept_key for run in kept for key in run.spans() for kept_key in kept_with(folders.spans, key)}
    return Plan(
        kept,
        [run.folder for run in runs if run not in kept],
        [path for path in artifacts if _place(str(path)) not in needed] if since else [],
        _unused(folders.spans, since, keys),
        _unused(folders.checkpoints, since),
    )


def remove(folders: Folders, found: Plan) -> None:
    """Take away what goes. Each folder vanishes in one step where the file system lets it, and whole in any case."""
    for number, path in enumerate(found.folders):
        doomed = folders.scratch / f"pruned-{number}"  # what a kill leaves there is removed by the next run
        try:
            folders.scratch.mkdir(exist_ok=True)
            shutil.rmtree(doomed, ignore_errors=True)
            path.rename(doomed)
        except OSError:  # another file system, or a full one
            doomed = path
        shutil.rmtree(doomed)


def _runs(folders: Folders) -> Iterator[Run]:
    for folder in folders.runs.glob("*/"):
        try:
            record = RunRecord.read(folder)
        except FileNotFoundError:  # killed before its first word
            began = folder.stat().st_mtime
            yield Run(folder, RunRecord(folder.name, "", "", began, status=Status.INTERRUPTED), began)
        except (ValueError, TypeError, KeyError):
            yield Run(folder, None, folder.stat().st_mtime)
        else:
            yield Run(folder, record, record.started)


def _named(blessed: Iterable[Entry], trained: TrainingRecord) -> Iterator[str]:
    """Blessed models and their baselines; the statistics of what the last models learned from."""
    for entry in blessed:
        yield entry.uri
        if entry.compared_with is not None:
            yield entry.compared_with
    yield from (data.statistics for data in (trained.judged, trained.blessed) if data is not None)


def _place(uri: str) -> Place:
    """The same for the folder of a value and the value in it, and after the pipeline's folder was moved."""
    parts = Path(uri.removeprefix("file://")).parts
    return parts[-4:-1] if parts[-1] == "value" else parts[-3:]


def _unused(store: Path, since: float, needed: Collection[str] = ()) -> list[Path]:
    """Folders that nobody needs, and that nothing was written to since."""
    there = (path for path in store.glob("*/") if path.name not in needed)
    return sorted(path for path in there if max(_written(path)) < since)


def _written(folder: Path) -> Iterator[float]:
    yield folder.stat().st_mtime
    yield from (file.lstat().st_mtime for file in _files(folder))


def _files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
