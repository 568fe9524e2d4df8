"""The folder that models are pushed to: what is in service there, what was pushed, and what awaits approval.

with changing_models(folders, "serving/taxi") as there:     # under the locks of a run and of `blessed.json`
    there.in_service, there.waiting()
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.deploy.lite_files import push_lite
from headrace.components.stored_models.blessed_record import Entry, Registry
from headrace.components.stored_models.blessing import changing
from headrace.components.stored_models.push import KEEP_ALL, push, refresh
from headrace.components.stored_models.push_record import PushRecord
from headrace.components.stored_models.stored_versions import shown
from headrace.components.stored_models.usable import SERVING
from headrace.configs.config import PipelineConfig
from headrace.pipeline.folders import Folders, locked
from headrace.pipeline.predict.models import pushed_versions


@dataclass(frozen=True)
class Destination:
    """A folder that models are pushed to, with the records of the pipeline that pushes to it.

    Attributes:
        path: The absolute path of `deploy.push`, or of the folder that stands for it.
        versions: The versions in it by number.
        registry: The blessed models.
        record: The pushed models.
        record_file: The path of `pushed.json`.
    """

    path: Path
    versions: Mapping[int, Path]
    registry: Registry
    record: PushRecord
    record_file: Path

    @classmethod
    def read(cls, folders: Folders, push_directory: str) -> Destination:
        """What is there now. Raises RunError if `blessed.json` or `pushed.json` is damaged."""
        path = folders.pushed(push_directory)
        record = PushRecord.read(folders.push_record)
        return cls(path, pushed_versions(path), Registry.read(folders.registry), record, folders.push_record)

    @property
    def in_service(self) -> Entry | None:
        """The blessed model that servers load; None if there is none, or another program put it there."""
        if not self.versions:
            return None
        uri = self.record.model_of(self.record_file, self.versions[max(self.versions)])
        return self.registry.find(uri) if uri else None

    @property
    def unfinished(self) -> Entry | None:
        """The model whose promotion was stopped before its push was recorded."""
        newest = self.registry.newest
        if newest is None or newest.approved_for != str(self.path):
            return None
        return None if self.record.of(self.record_file, newest, self.path) else newest

    def waiting(self, *, manual: bool = True) -> tuple[Entry, ...]:
        """The models that await approval, in the order of their blessings.

        manual: whether the newest one does, if it was blessed without asking for approval and never pushed.
        """
        newest = self.registry.newest
        unpushed = manual and newest and not self.record.is_approved(self.record_file, newest, self.path)
        return (*((newest,) if newest and unpushed else ()), *self.registry.waiting)

    @property
    def moved_from(self) -> str:
        """Where else models were pushed, and what that means, if nothing is known of the versions here; else ""."""
        others = sorted(there for there in self.record.last if there != str(self.path))
        if not self.versions or not others or str(self.path) in self.record.last:
            return ""
        return (
            f"models were pushed to {join_names(map(shown, others))}.\n"
            "  If that folder was moved or copied to this one, run `headrace run`, which pushes to it; earlier models"
            " can then be put back by `headrace rollback`."
        )

    def push(self, entry: Entry, keep: int | None) -> Path:
        """Push a model as a new version, in one step, and record that; returns the version's folder. keep: how many
        versions stay; None for all.
        """
        version = push(Path(entry.uri, SERVING), self.path, keep=keep or KEEP_ALL)
        self.record.write(self.record_file, entry, version)
        push_lite(self.record_file.parent, entry, version)
        return version

    def model_of(self, version: str) -> str | None:
        """The URI of the model of a version, even of one that is gone; None if no run here pushed it."""
        return self.record.model_of(self.record_file, self.path / version)

    def versions_of(self, entry: Entry) -> list[str]:
        """The versions under which a model was pushed, oldest first."""
        pushed = self.record.models.get(str(self.path), {})
        return sorted((name for name in pushed if self.model_of(name) == entry.uri), key=int)


@dataclass(frozen=True)
class ModelChange:
    """What a rollback or a promotion did, with paths on this machine or URIs.

    Attributes:
        version: The new version; with an object store, its copy here.
        model: Its model.
        run: Id of the run that trained it; None if that is not known.
        withdrawn: The models that it took out of service.
        kserve: What the InferenceService does then; None if there is none.
    """

    version: str
    model: str
    run: str | None
    withdrawn: tuple[str, ...]
    kserve: str | None = None


@contextlib.contextmanager
def changing_models(folders: Folders, push_directory: str, *, in_run: bool = False) -> Iterator[Destination]:
    """Hold the lock of a run and that of `blessed.json`. in_run: whether a run, which holds the former, does so.

    Raises RunError if a run is in progress, or if `deploy.push` is in an object store that cannot be read.
    """
    held = contextlib.nullcontext() if in_run else locked(folders.home, "a promotion or rollback")
    with held, changing(folders.registry):
        refresh(folders.pushed(push_directory))
        yield Destination.read(folders, push_directory)


def required_push_directory(config: PipelineConfig) -> str:
    """The setting `deploy.push`. Raises RunError if it is null."""
    if config.push_directory is None:
        raise RunError("deploy.push is null, so no model is in service; set it to the folder that a server watches")
    return config.push_directory
