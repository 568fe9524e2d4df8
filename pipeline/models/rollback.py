"""Put an earlier blessed model back into service.

done = roll_back(config, None, datetime.now(UTC))
done.version, done.entry.uri

Model servers load the highest version number, so the model is pushed again, as a new version. It becomes the newest in
`blessed.json`, so the next candidate is compared with it, and what was blessed after it is withdrawn. The list is
written before the push, as in a run: after a kill in between, the next run or the same command completes the push.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.blessed_model import SERVING, why_unusable
from headrace.components.deploy.baseline import changing, time_after
from headrace.components.deploy.push_record import PushRecord
from headrace.components.deploy.pusher import KEEP_ALL, push
from headrace.components.deploy.registry import Entry, Registry
from headrace.configs.config import PipelineConfig
from headrace.pipeline.folders import Folders, locked
from headrace.pipeline.predict.models import pushed_versions


@dataclass(frozen=True)
class Rollback:
    """What a rollback did. version: the new version's folder; entry: its model; withdrawn: models it took out."""

    version: Path
    entry: Entry
    withdrawn: tuple[str, ...]


def roll_back(config: PipelineConfig, to: str | None, now: datetime) -> Rollback:
    """Put an earlier blessed model back into service, under a new and higher version number.

    to: the version whose model it is, by default the model blessed before the one in service. Raises RunError, before
    anything is changed, if there is no such model, it is not blessed, its files are gone or damaged, or a run of the
    pipeline is in progress.
    """
    if config.push_directory is None:
        raise RunError("deploy.push is null, so no model is in service; set it to the folder that a server watches")
    folders = Folders.of(config)
    destination = folders.pushed(config.push_directory)
    if not folders.registry.is_file():
        raise RunError(f"there is nothing to roll back to: no model in {folders.home} has been blessed yet")
    with locked(folders.home), changing(folders.registry):
        registry, record = Registry.read(folders.registry), PushRecord.read(folders.push_record)
        state = _State(registry, record, folders.push_record, pushed_versions(destination), destination)
        if str(destination) not in record.last:
            why = f"{folders.push_record} names no model that was pushed to {destination}"
            raise RunError(f"there is nothing to roll back to: {why}")
        target = state.earlier() if to is None else state.wanted(to)
        if flaw := why_unusable(target.uri, target, None, folders.push_record):
            raise RunError(f"{flaw.reason}, so it cannot be put back into service{state.choices()}")
        changed = registry.rolled_back_to(target.uri, time_after(registry.newest, now))
        changed.write(folders.registry)
        restored = changed.models[-1]
        version = push(Path(target.uri, SERVING), destination, keep=config.deploy.keep or KEEP_ALL)
        record.write(folders.push_record, restored, version)
    before = {entry.uri for entry in registry.models if entry.withdrawn_at}
    return Rollback(
        version, restored, tuple(each.uri for each in changed.models if each.withdrawn_at and each.uri not in before)
    )


@dataclass(frozen=True)
class _State:
    """What is blessed, what was pushed, and what is in service."""

    registry: Registry
    record: PushRecord
    record_file: Path
    versions: Mapping[int, Path]
    destination: Path

    @property
    def in_service(self) -> Entry | None:
        """The blessed model that servers load; None if there is none, or another program put it there."""
        if not self.versions:
            return None
        uri = self.record.model_of(self.record_file, self.versions[max(self.versions)])
        return self.registry.find(uri) if uri else None

    def earlier(self) -> Entry:
        """The model blessed before the one in service. If that one is withdrawn, by a rollback that was killed before
        its push, the one that the rollback put in its place.
        """
        current, found = self.in_service, list(self.registry.models)
        if current and not current.withdrawn_at:
            found = found[: found.index(current)]
        found = [entry for entry in found if not entry.withdrawn_at]
        if not found:
            raise RunError(
                f"there is nothing to roll back to: no model was blessed before the one in service{self.choices()}"
            )
        return found[-1]

    def wanted(self, version: str) -> Entry:
        """The model of a version."""
        uri = self.record.model_of(self.record_file, self.destination / version)
        if uri is None:
            raise RunError(f"no run here pushed a version {version} to {self.destination}{self.choices()}")
        entry, current = self.registry.find(uri), self.in_service
        if entry is None:
            raise RunError(f"the model of version {version} is not in the list of blessed models{self.choices()}")
        if entry == current:
            raise RunError(f"the model of version {version} is in service, as version {max(self.versions)}")
        return entry

    def choices(self) -> str:
        """A second line of messages: the versions that `--to` takes."""
        pushed = self.record.models.get(str(self.destination), {})
        current = self.in_service
        blessed = {entry.uri for entry in self.registry.models if entry != current}
        found = sorted(
            (name for name in pushed if self.record.model_of(self.record_file, self.destination / name) in blessed),
            key=int,
            reverse=True,
        )
        return f".\n  Blessed versions that are not in service: {join_names(found) if found else 'none'}."
