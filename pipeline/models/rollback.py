"""Put an earlier blessed model back into service.

done = roll_back(config, None, datetime.now(UTC))
done.version, done.model

Model servers load the highest version number, so the model is pushed again, as a new version. It becomes the newest in
`blessed.json`, so the next candidate is compared with it, and what was blessed after it is withdrawn. The list is
written before the push, as in a run: after a kill in between, the next run or the same command completes the push.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from headrace.common.errors import RunError
from headrace.common.names import join_names
from headrace.components.stored_models.blessed_record import Entry, Registry, inside
from headrace.components.stored_models.blessing import time_after
from headrace.components.stored_models.stored_versions import shown
from headrace.components.stored_models.usable import restore_pruned, why_unusable
from headrace.configs.config import PipelineConfig
from headrace.pipeline.folders import Folders
from headrace.pipeline.models.destination import Destination, ModelChange, changing_models, required_push_directory


def roll_back(config: PipelineConfig, to: str | None, now: datetime, *, in_run: bool = False) -> ModelChange:
    """Put an earlier blessed model back into service, under a new and higher version number.

    to: the version or the run whose model it is, by default the model blessed before the one in service; in_run:
    whether the caller is the run in progress. Raises RunError, before anything is changed, if there is no such model,
    it is not blessed, its files are gone or damaged, or another run of the pipeline is in progress.
    """
    push_directory, folders = required_push_directory(config), Folders.of(config)
    if not folders.registry.is_file():
        raise RunError(f"there is nothing to roll back to: no model in {folders.home} has been blessed yet")
    with changing_models(folders, push_directory, in_run=in_run) as there:
        changed = rolled_back(there, to, now)
        changed.write(folders.registry)
        version = there.push(changed.models[-1], config.deploy.keep)
    return ModelChange(str(version), changed.models[-1].uri, None, newly_withdrawn(there.registry, changed))


def rolled_back(there: Destination, to: str | None, now: datetime) -> Registry:
    """The list of blessed models after a rollback, with the restored model as the last. Raises RunError as above."""
    if str(there.path) not in there.record.last:
        why = f"{there.record_file} has no model that was pushed to {shown(there.path)}"
        why += f"; {there.moved_from}" if there.moved_from else ""
        raise RunError(f"there is nothing to roll back to: {why}")
    target = _earlier(there) if to is None else _wanted(there, to)
    restore_pruned(target, there.record_file)
    if flaw := why_unusable(target.uri, target, None, there.record_file):
        raise RunError(f"{flaw.reason}, so it cannot be put back into service{_choices(there, target)}")
    return there.registry.rolled_back_to(target.uri, time_after(there.registry.last_change, now))


def newly_withdrawn(before: Registry, after: Registry) -> tuple[str, ...]:
    """The URIs of the models that a change of the list took out of service."""
    known = {entry.uri for entry in before.models if entry.withdrawn_at}
    return tuple(each.uri for each in after.models if each.withdrawn_at and each.uri not in known)


def _earlier(there: Destination) -> Entry:
    """The model blessed before the one in service. If that one is withdrawn, by a rollback that was killed before its
    push, the one that the rollback put in its place.
    """
    current, found = there.in_service, list(there.registry.models)
    if current and not current.withdrawn_at:
        found = found[: found.index(current)]
    found = [entry for entry in found if not entry.withdrawn_at and not entry.awaiting_approval]
    if not found:
        raise RunError(
            f"there is nothing to roll back to: no model was blessed before the one in service{_choices(there)}"
        )
    return found[-1]


def _wanted(there: Destination, name: str) -> Entry:
    """The model of a version that was pushed, or of a run that trained one."""
    uri = there.model_of(name)
    what = f"the model of {'version' if uri else 'run'} {name}"
    if uri is None and (uri := _pushed_by(there, name)) is None:
        unknown = f"no run here pushed a version {name} to {shown(there.path)}"
        if not name.isdecimal():
            unknown = f"{name} is neither a version that a run here pushed to {shown(there.path)} nor such a run"
        raise RunError(f"{unknown}{_choices(there)}")
    entry = there.registry.find(uri)
    if entry is None:
        raise RunError(f"{what} is not in the list of blessed models{_choices(there)}")
    if entry == there.in_service:
        raise RunError(f"{what} is in service, as version {max(there.versions)}")
    return entry


def _pushed_by(there: Destination, run: str) -> str | None:
    """The model that a run trained, if it was pushed. Its folder has the name of the run, last on this machine."""
    home = there.record_file.parent
    pushed = there.record.models.get(str(there.path), {}).values()
    parts = {uri: Path(inside(home, str(home / uri))).parts for uri in pushed}
    found = (uri for uri, names in parts.items() if names[-1 if names[0] == "artifacts" else 0] == run)
    return next((str(home / uri) for uri in found), None)


def _choices(there: Destination, unusable: Entry | None = None) -> str:
    """A second line of messages: the versions that `--to` takes, without those of a model that is gone or damaged."""
    pushed = there.record.models.get(str(there.path), {})
    others = [entry for entry in there.registry.models if entry not in (there.in_service, unusable)]
    copied = {there.model_of(str(number)) for number in there.versions}
    usable = {entry.uri for entry in others if entry.uri in copied or Path(entry.uri).is_dir()}
    found = sorted((name for name in pushed if there.model_of(name) in usable), key=int, reverse=True)
    versions = f"{join_names(found)}; `--to` puts one back into service" if found else "none"
    return f".\n  Blessed versions that are not in service: {versions}."
