"""Pusher: copies a blessed model into the folder that a model server watches for new versions.

A model is listed as blessed (RecordBlessing), pushed, and noted as pushed, in this order. So if a run is killed, or the
disk is full, the model in service is in the list anyway. A model that is listed but not noted is pushed by the next
run, even if that run's candidate is not blessed. So is one whose version in service is damaged.

What came after RecordBlessing is found in the list itself: a model that a rollback withdrew is not pushed, nor is one
that another run has overtaken, whose model was blessed later: that run pushes its own. (Runs on Kubeflow have no lock
in common.) Until the push is noted, the list is locked, so that on one file system a rollback happens before or after
all of it.

With `deploy.approval: manual` a run pushes only what a person has promoted: to complete a promotion that was stopped,
or to replace a damaged version.
"""

import contextlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfx.components.util.model_utils import is_infra_validated, is_model_blessed
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts
from tfx.utils import path_utils

from headrace.common.checksums import checksum
from headrace.common.errors import RunError
from headrace.components.deploy.lite_files import push_lite
from headrace.components.stored_models.blessed_record import (
    AUTOMATIC,
    AWAITING,
    IN_SERVICE,
    IN_SERVICE_CONTENTS,
    LATE,
    MANUAL,
    REFUSED,
    WITHDRAWN,
    Entry,
    NewestEntry,
    Registry,
    inside,
)
from headrace.components.stored_models.blessing import changing
from headrace.components.stored_models.push import archive, fetch, push, refresh, versions
from headrace.components.stored_models.push_record import Push, PushRecord
from headrace.components.stored_models.stored_versions import shown

logger = logging.getLogger(__name__)

_STOPPED = "whose run, rollback or promotion ended before pushing it"


@component
def Pusher(  # noqa: N802, PLR0913, PLR0917
    model: InputArtifact[standard_artifacts.Model],
    model_blessing: InputArtifact[standard_artifacts.ModelBlessing],
    entry: InputArtifact[standard_artifacts.String],
    pushed_model: OutputArtifact[standard_artifacts.PushedModel],
    destination: Parameter[str],
    keep: Parameter[int],
    push_record: Parameter[str],
    approval: Parameter[str] = AUTOMATIC,
    registry: Parameter[str] = "",
    canary: InputArtifact[standard_artifacts.InfraBlessing] = None,
) -> None:
    """Push the newest blessed model if this run blessed it, if its own run stopped before pushing it, or if its version
    in service is damaged.

    The output has the properties of TFX's Pusher (`pushed`, `pushed_destination`, `pushed_version`), LATE if an earlier
    run trained the model, AWAITING if this run's model waits for approval, REFUSED if it was refused and is in service,
    and IN_SERVICE and IN_SERVICE_CONTENTS if nothing is pushed and the version that was pushed last is there. Raises
    RunError if the model is damaged.

    Args:
        model: the newest blessed model, from RecordBlessing; an empty folder if there is none.
        model_blessing: whether this run's model is blessed.
        entry: the model's entry in the registry, as JSON; {} if there is none.
        pushed_model: a copy of the pushed model.
        destination: the folder that a model server watches, or one that stands for a folder in an object store.
        keep: how many versions stay there; KEEP_ALL for all.
        push_record: path of `pushed.json`.
        approval: AUTOMATIC or MANUAL.
        registry: path of `blessed.json`, which says what was withdrawn since; "" not to look.
        canary: the Canary's verdict, or Lite's, which includes it; None if there is neither.
    """
    newest = NewestEntry.model_validate_json(entry.value) if entry.value != "{}" else None
    blessed = is_model_blessed(model_blessing) and (canary is None or is_infra_validated(canary))
    target = _Target(Path(destination), keep, Path(push_record), approval)
    with changing(Path(registry)) if registry else contextlib.nullcontext():
        overtaken = None
        if newest and registry:
            listed = Registry.read(Path(registry))
            newest = _as_listed(newest, listed, Path(registry).parent)
            overtaken = _overtaken_by(newest, listed, Path(registry).parent)
        target.push(Path(model.uri), newest, pushed_model, overtaken, blessed=blessed)


@dataclass(frozen=True)
class _Target:
    """Where models are pushed: Pusher's parameters. record: path of `pushed.json`."""

    folder: Path
    keep: int
    record: Path
    approval: str

    def push(
        self, model: Path, newest: NewestEntry | None, pushed_model: Any, overtaken: str | None, *, blessed: bool
    ) -> None:
        """Do what Pusher does. blessed: whether the run's own model is, by the Evaluator and the Canary."""
        refresh(self.folder)
        withdrawn, refused = (newest.withdrawn, newest.refused) if newest else (None, None)
        record = PushRecord.read(self.record)
        blessed = blessed and not withdrawn and not refused and not overtaken
        last = record.of(self.record, newest, self.folder) if newest else None
        waits = False
        if self.approval == MANUAL:
            approved = newest is not None and record.is_approved(self.record, newest, self.folder)
            waits = blessed and (newest is None or newest.waiting is not None or not approved)
            blessed, newest = False, newest if approved else None
        if waits:
            pushed_model.set_string_custom_property(AWAITING, str(self.folder))
        damaged = self.folder / last.version if last and _is_damaged(last, self.folder) else None
        blessed = blessed and not (newest and last and _pushed_by_person(newest, last, self.folder))
        if withdrawn:
            pushed_model.set_string_custom_property(WITHDRAWN, "the model was rolled back, so it is not pushed again")
        elif overtaken:
            why = f"{overtaken} was blessed later, so this model is not pushed"
            pushed_model.set_string_custom_property(WITHDRAWN, why)
        unfit = newest is not None and (overtaken is not None or newest.uri in {refused, withdrawn})
        if newest is None or unfit or (not blessed and last and not damaged):
            logger.info(_why_nothing(withdrawn, refused, overtaken, waits=waits))
            pushed_model.set_int_custom_property("pushed", 0)
            self._note_refusal(newest, last, pushed_model)
            if not last or not (self.folder / last.version).is_dir():
                return
            pushed_model.set_string_custom_property(IN_SERVICE, str(self.folder / last.version))
            pushed_model.set_string_custom_property(IN_SERVICE_CONTENTS, last.contents)
            if newest and not unfit:
                push_lite(self.record.parent, newest, self.folder / last.version)  # an earlier run may have stopped
            return
        if damaged:
            logger.warning(f"{shown(damaged)} is damaged: its files are not the ones that were pushed")
        _check_model(model, newest, damaged)
        if not blessed:
            why = f"in place of version {damaged.name}, which is damaged" if damaged else _STOPPED
            late = f"the model blessed at {newest.blessed_at}, {why}"
            logger.info(f"{model}: {late}")
            pushed_model.set_string_custom_property(LATE, late)
        self._push(model, newest, record, pushed_model)

    def _note_refusal(self, newest: NewestEntry | None, last: Push | None, pushed_model: Any) -> None:
        """Note if the model that this run refused is in service. last: the last push of the newest model, which servers
        load unless a later version is there.
        """
        if newest is None or newest.uri != newest.refused or last is None or not (self.folder / last.version).is_dir():
            return
        if str(max(versions(self.folder))) == last.version:
            pushed_model.set_string_custom_property(REFUSED, str(self.folder / last.version))
            logger.warning(f"{newest.refused} was refused, and is in service as version {last.version}")

    def _push(self, model: Path, newest: NewestEntry, record: PushRecord, pushed_model: Any) -> None:
        serving = Path(path_utils.serving_model_path(str(model)))
        version = push(serving, self.folder, keep=self.keep)
        archive(serving, Path(pushed_model.uri))
        record.write(self.record, newest, version)
        push_lite(self.record.parent, newest, version)
        pushed_model.set_int_custom_property("pushed", 1)
        pushed_model.set_string_custom_property("pushed_destination", str(version))
        pushed_model.set_string_custom_property("pushed_version", version.name)
        logger.info(f"pushed to {shown(version)}")


def _as_listed(newest: NewestEntry, listed: Registry, home: Path) -> NewestEntry:
    """The newest entry, as withdrawn if a rollback has withdrawn its model since RecordBlessing read the list."""
    known = listed.find(str(home / newest.uri))
    return newest.model_copy(update={"withdrawn": newest.uri}) if known and known.withdrawn_at else newest


def _overtaken_by(newest: NewestEntry, listed: Registry, home: Path) -> str | None:
    """The model that was blessed last, as the list names it, if that was after this one.

    Its own run pushes it, or the next run if that one stopped. If both runs pushed, servers would load the version with
    the higher number, which need not be its.
    """
    uris = [entry.uri for entry in listed.models]
    own = str(home / newest.uri)
    after = listed.models[uris.index(own) + 1 :] if own in uris else ()
    later = [inside(home, entry.uri) for entry in after if not entry.withdrawn_at and not entry.awaiting_approval]
    return later[-1] if later else None


def _why_nothing(withdrawn: str | None, refused: str | None, overtaken: str | None, *, waits: bool) -> str:
    if withdrawn:
        return f"{withdrawn} was rolled back, so it is not pushed"
    if refused:
        return f"{refused} failed its canary or its conversion for LiteRT, so it is not pushed"
    if overtaken:
        return f"{overtaken} was blessed later, so this model is not pushed"
    return "the model awaits approval, so it is not pushed" if waits else "no model to push"


def _pushed_by_person(newest: Entry, last: Push, destination: Path) -> bool:
    """Whether the rollback or promotion that made the model the newest one has pushed it, and it is in service."""
    return newest.judged_at is not None and _is_newest(last, destination)


def _is_newest(last: Push, destination: Path) -> bool:
    """Whether the version that was pushed last is the newest there, neither removed nor superseded by another's."""
    return (destination / last.version).is_dir() and str(max(versions(destination), default=None)) == last.version


def _is_damaged(last: Push, destination: Path) -> bool:
    """Whether the version that was pushed last is the newest there, with other files than those that were pushed."""
    version = destination / last.version
    if not _is_newest(last, destination):
        return False
    if checksum(version) != last.contents:
        fetch(version)  # of a version in an object store, only its copy here may be damaged
    return checksum(version) != last.contents


def _check_model(model: Path, entry: Entry, damaged: Path | None) -> None:
    """Raise RunError if the files are not the ones that were blessed. damaged: the version in service, if damaged."""
    if entry.contents is None or (model.is_dir() and checksum(model) == entry.contents):
        return
    what = f"the blessed model {model} is {'damaged' if model.is_dir() else 'gone'}, so it cannot be pushed"
    if damaged is None:
        raise RunError(f"{what}.\n  Restore its files, or remove its entry from the list of blessed models.")
    place = shown(damaged)
    raise RunError(
        f"A DAMAGED MODEL IS IN SERVICE: the files in {place} are not the ones that were pushed, and {what} again.\n"
        f"  Restore the files of one of them, or remove {place}, so that model servers load the previous version; or"
        " bless another model."
    )
