"""The pipeline's schedule on the server, made to match the config.

The API can create, end, pause and delete a schedule, but not change one, so a changed schedule is a new one.

Kubernetes deletes the workflows of a schedule along with it, running ones too, unless it is asked to orphan them.
Releases before 2.16 cannot do that, so there a schedule with an unfinished run is only paused, and the next command
deletes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import kfp_server_api as api

from headrace.common.cron import translate
from headrace.common.errors import ServerError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.schedule import ScheduleConfig
from headrace.pipeline.kubeflow.pod.parameters import SCHEDULED, offered
from headrace.pipeline.kubeflow.server.connection import Connection, field_filter, list_all, name_filter
from headrace.pipeline.kubeflow.server.errors import NOT_FOUND, is_unclear
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.tasks import ENDED
from headrace.pipeline.kubeflow.server.versions import PipelineVersion

ScheduleChange = Literal["made", "changed", "unchanged"]
DIGITS = 10
CAN_ORPHAN = (2, 16)
"""The first release whose API can delete a schedule without its runs (`propagation_policy`)."""
MARK = "headrace schedule"
"""The beginning of the description of each schedule that any version of headrace created. Others are left alone."""


@dataclass(frozen=True)
class DesiredSchedule:
    """The schedule as it should be. name: that of the pipeline, which has one schedule in each experiment."""

    name: str
    experiment_id: str
    schedule: ScheduleConfig
    server_zone: str
    version: PipelineVersion
    pipeline_root: str
    service_account: str | None = None

    @property
    def trigger(self) -> dict[str, Any]:
        """In the form and with the names of the API."""
        if self.schedule.cron is None:
            return {"periodic_schedule": {"interval_second": self.schedule.seconds}}
        zone = self.schedule.time_zone
        return {"cron_schedule": {"cron": translate(self.schedule.cron, zone, self.server_zone)}}

    @property
    def parameters(self) -> dict[str, str]:
        window = {} if self.schedule.window is None else {"window": str(self.schedule.window)}
        return {**window, "run_date": SCHEDULED} if self.schedule.as_of == "scheduled" else window

    @property
    def mark(self) -> str:
        """The description, which differs for schedules with different content."""
        version = self.version.name if self.schedule.pinned else None
        parts: list[object] = [self.trigger, self.parameters, version, self.pipeline_root, self.service_account]
        parts += [self.schedule.catch_up, self.schedule.concurrency]
        return f"{MARK}, content {hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGITS]}"


def submit_schedule(
    session: Session, wanted: ScheduleConfig, compiled: str | None = None
) -> tuple[PipelineVersion, Any, ScheduleChange]:
    """The version and the schedule, as the config has them.

    A schedule that is not pinned runs the newest version, which is then this one. compiled: the compiled pipeline; None
    compiles it now.
    """
    version = session.upload(cache=wanted.cache, newest=not wanted.pinned, compiled=compiled)
    wanted = applicable(session.config, wanted)
    settings = session.config.kubeflow
    desired = DesiredSchedule(
        name=session.pipeline,
        experiment_id=session.ensure_experiment(),
        schedule=wanted,
        server_zone=settings.server.time_zone,
        version=version,
        pipeline_root=settings.pipeline_root,
        service_account=settings.server.service_account,
    )
    return version, *apply_schedule(session.server, desired)


def applicable(config: PipelineConfig, wanted: ScheduleConfig) -> ScheduleConfig:
    """The schedule without what does not apply to a pipeline that only predicts: the `window` of the training data, and
    the scheduled day if the new data has no days.
    """
    if not config.only_predicts:
        return wanted
    as_of = wanted.as_of if "run_date" in offered(config) else "newest"
    return wanted.model_copy(update={"window": None, "as_of": as_of})


def apply_schedule(server: Connection, desired: DesiredSchedule) -> tuple[Any, ScheduleChange]:
    """Create the schedule, replace one with other content, or leave it as it is."""
    there = find(server, desired.experiment_id, desired.name)
    same = [one for one in there if one.description == desired.mark]
    if same:
        kept = same[0]
        remove(server, [one for one in there if one is not kept])
        return kept, "changed" if _set_paused(server, kept, paused=desired.schedule.paused) else "unchanged"
    paused = [one for one in there if one.status == "ENABLED"]
    try:
        for one in paused:
            _set_paused(server, one, paused=True)
        made = _create(server, desired)
    except BaseException as error:  # Ctrl-C included: the old schedule must not stay paused
        with contextlib.suppress(ServerError):
            if not isinstance(error, ServerError) and _created(server, desired):
                paused = []  # the new one was created before Ctrl-C: only one of the two may run
        for one in paused:
            with contextlib.suppress(ServerError):
                server.change(
                    "resume the schedule",
                    server.recurring.recurring_run_service_enable_recurring_run,
                    one.recurring_run_id,
                )
        raise
    remove(server, there)
    return made, "changed" if there else "made"


def find(server: Connection, experiment_id: str, name: str) -> list[Any]:
    """The schedules with that name that headrace created, the oldest first."""
    return [one for one in named_schedules(server, experiment_id, name) if is_ours(one)]


def is_ours(one: Any) -> bool:
    """Whether headrace created a schedule."""
    return str(one.description or "").startswith(MARK)


def named_schedules(server: Connection, experiment_id: str, name: str) -> list[Any]:
    """The schedules with that name, whoever created them, the oldest first."""
    method = server.recurring.recurring_run_service_list_recurring_runs
    chosen = {"experiment_id": experiment_id, "filter": name_filter(name)}
    found = list_all(server, "find the schedule", method, "recurring_runs", **chosen)
    return sorted(found, key=lambda one: (one.created_at, one.recurring_run_id))


def remove(server: Connection, found: Sequence[Any]) -> list[Any]:
    """Delete schedules and leave their runs alone.

    Returns the schedules that are only paused, because deleting them would end an unfinished run.
    """
    if not found:
        return []
    if server.release() >= CAN_ORPHAN:
        for one in found:
            _delete(server, one, propagation_policy="ORPHAN")
        return []
    left = []
    for one in found:
        _set_paused(server, one, paused=True)
        if unfinished(server, one):
            left.append(one)
        else:
            _delete(server, one)
    return left


def unfinished(server: Connection, one: Any) -> list[Any]:
    """The runs of a schedule that have not ended."""
    method = server.runs.run_service_list_runs
    chosen = {
        "experiment_id": one.experiment_id,
        "filter": field_filter("recurring_run_id", one.recurring_run_id),
    }
    found = list_all(server, "list the schedule's runs", method, "runs", **chosen)
    return [run for run in found if run.state not in ENDED]


def _delete(server: Connection, one: Any, **options: str) -> None:
    """Delete a schedule; one that no longer exists is not an error."""
    method = server.recurring.recurring_run_service_delete_recurring_run
    try:
        server.change("delete the schedule", method, one.recurring_run_id, **options)
    except ServerError as error:
        if error.status != NOT_FOUND:
            raise


def _create(server: Connection, desired: DesiredSchedule) -> Any:
    method = server.recurring.recurring_run_service_create_recurring_run
    try:
        return server.change("create the schedule", method, _body(desired))
    except ServerError as error:
        created = _created(server, desired) if is_unclear(error) else None
        if created is None:
            raise
        return created


def _created(server: Connection, desired: DesiredSchedule) -> Any | None:
    found = find(server, desired.experiment_id, desired.name)
    return next((one for one in found if one.description == desired.mark), None)


def _body(desired: DesiredSchedule) -> Any:
    chosen = {"pipeline_id": desired.version.pipeline_id}
    if desired.schedule.pinned:
        chosen["pipeline_version_id"] = desired.version.version_id
    return api.V2beta1RecurringRun(
        display_name=desired.name,
        description=desired.mark,
        experiment_id=desired.experiment_id,
        pipeline_version_reference=api.V2beta1PipelineVersionReference(**chosen),
        runtime_config=api.V2beta1RuntimeConfig(pipeline_root=desired.pipeline_root, parameters=desired.parameters),
        trigger=desired.trigger,
        max_concurrency=str(desired.schedule.concurrency),
        no_catchup=not desired.schedule.catch_up,
        mode="DISABLE" if desired.schedule.paused else "ENABLE",
        service_account=desired.service_account,
    )


def _set_paused(server: Connection, one: Any, *, paused: bool) -> bool:
    """Pause or resume a schedule. Returns whether that changed anything."""
    if (one.status == "DISABLED") == paused:
        return False
    recurring = server.recurring
    if paused:
        server.change("pause the schedule", recurring.recurring_run_service_disable_recurring_run, one.recurring_run_id)
    else:
        server.change("resume the schedule", recurring.recurring_run_service_enable_recurring_run, one.recurring_run_id)
    return True
