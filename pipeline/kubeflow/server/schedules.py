"""The pipeline's schedule on the server, brought to what the config says.

The API can make, end, pause and delete a schedule, but not change one: another one takes its place.

Kubernetes deletes the workflows of a schedule with it, running ones too, unless it is told to leave them. Releases
before 2.16 cannot tell it, so there a schedule with an unfinished run is only paused; the next command deletes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import kfp_server_api as api

from headrace.configs.cron import translate
from headrace.configs.errors import ServerError
from headrace.configs.schedule import ScheduleConfig
from headrace.pipeline.kubeflow.parameters import SCHEDULED
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.faults import NOT_FOUND, unclear
from headrace.pipeline.kubeflow.server.listing import equals, every, named
from headrace.pipeline.kubeflow.server.native import ENDED
from headrace.pipeline.kubeflow.server.versions import Version

Outcome = Literal["made", "changed", "unchanged"]
DIGITS = 10
LEAVES_RUNS = (2, 16)
"""The first release whose API can delete a schedule and leave its runs (`propagation_policy`)."""
MARK = "headrace schedule"
"""How the description of each schedule begins that was made here, by all versions; others' are left alone."""


@dataclass(frozen=True)
class Wanted:
    """The schedule as it should be. `name`: the pipeline's; it has one schedule in each experiment."""

    name: str
    experiment_id: str
    schedule: ScheduleConfig
    server_zone: str
    version: Version
    pipeline_root: str
    service_account: str | None = None

    @property
    def trigger(self) -> dict[str, Any]:
        """As the API takes it, by its own names."""
        if self.schedule.cron is None:
            return {"periodic_schedule": {"interval_second": self.schedule.seconds}}
        zone = self.schedule.time_zone
        return {"cron_schedule": {"cron": translate(self.schedule.cron, zone, self.server_zone)}}

    @property
    def parameters(self) -> dict[str, str]:
        given = {} if self.schedule.window is None else {"window": str(self.schedule.window)}
        return {**given, "run_date": SCHEDULED} if self.schedule.as_of == "scheduled" else given

    @property
    def mark(self) -> str:
        """Stands in the description, and tells a schedule of other content."""
        version = self.version.name if self.schedule.pinned else None
        parts: list[object] = [self.trigger, self.parameters, version, self.pipeline_root, self.service_account]
        parts += [self.schedule.catch_up, self.schedule.concurrency]
        return f"{MARK}, content {hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGITS]}"


def schedule(server: Connection, wanted: Wanted) -> tuple[Any, Outcome]:
    """Make the schedule, or put it in the place of one of other content, or leave it."""
    there = find(server, wanted.experiment_id, wanted.name)
    same = [one for one in there if one.description == wanted.mark]
    if same:
        kept = same[0]
        remove(server, [one for one in there if one is not kept])
        return kept, "changed" if _set_paused(server, kept, paused=wanted.schedule.paused) else "unchanged"
    were_on = [one for one in there if one.status == "ENABLED"]
    try:
        for one in were_on:
            _set_paused(server, one, paused=True)
        made = _make(server, wanted)
    except BaseException as error:  # of Ctrl-C too: the old one must not stay paused
        with contextlib.suppress(ServerError):
            if not isinstance(error, ServerError) and _made(server, wanted):
                were_on = []  # the new one was asked for before the key was pressed: not both
        for one in were_on:
            with contextlib.suppress(ServerError):
                server.change(
                    "go on with the schedule",
                    server.recurring.recurring_run_service_enable_recurring_run,
                    one.recurring_run_id,
                )
        raise
    remove(server, there)
    return made, "changed" if there else "made"


def find(server: Connection, experiment_id: str, name: str) -> list[Any]:
    """The schedules of that name that were made here, the oldest first."""
    return [one for one in called(server, experiment_id, name) if is_ours(one)]


def is_ours(one: Any) -> bool:
    """Whether a schedule was made here."""
    return str(one.description or "").startswith(MARK)


def called(server: Connection, experiment_id: str, name: str) -> list[Any]:
    """The schedules of that name, whoever made them, the oldest first."""
    ask = server.recurring.recurring_run_service_list_recurring_runs
    found = every(server, "find the schedule", ask, "recurring_runs", experiment_id=experiment_id, filter=named(name))
    return sorted(found, key=lambda one: (one.created_at, one.recurring_run_id))


def remove(server: Connection, found: Sequence[Any]) -> list[Any]:
    """Delete schedules and leave their runs alone. Returns those that are only paused, because deleting them would end
    an unfinished run.
    """
    if not found:
        return []
    if server.release() >= LEAVES_RUNS:
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
    ask = server.runs.run_service_list_runs
    mine = equals("recurring_run_id", one.recurring_run_id)
    found = every(server, "list the schedule's runs", ask, "runs", experiment_id=one.experiment_id, filter=mine)
    return [run for run in found if run.state not in ENDED]


def _delete(server: Connection, one: Any, **how: str) -> None:
    """One that is gone already is not an error."""
    ask = server.recurring.recurring_run_service_delete_recurring_run
    try:
        server.change("delete the schedule", ask, one.recurring_run_id, **how)
    except ServerError as error:
        if error.status != NOT_FOUND:
            raise


def _make(server: Connection, wanted: Wanted) -> Any:
    try:
        return server.change(
            "make the schedule", server.recurring.recurring_run_service_create_recurring_run, _body(wanted)
        )
    except ServerError as error:
        made = _made(server, wanted) if unclear(error) else None
        if made is None:
            raise
        return made


def _made(server: Connection, wanted: Wanted) -> Any | None:
    """The schedule if it is there."""
    found = find(server, wanted.experiment_id, wanted.name)
    return next((one for one in found if one.description == wanted.mark), None)


def _body(wanted: Wanted) -> Any:
    chosen = {"pipeline_id": wanted.version.pipeline_id}
    if wanted.schedule.pinned:
        chosen["pipeline_version_id"] = wanted.version.version_id
    return api.V2beta1RecurringRun(
        display_name=wanted.name,
        description=wanted.mark,
        experiment_id=wanted.experiment_id,
        pipeline_version_reference=api.V2beta1PipelineVersionReference(**chosen),
        runtime_config=api.V2beta1RuntimeConfig(pipeline_root=wanted.pipeline_root, parameters=wanted.parameters),
        trigger=wanted.trigger,
        max_concurrency=str(wanted.schedule.concurrency),
        no_catchup=not wanted.schedule.catch_up,
        mode="DISABLE" if wanted.schedule.paused else "ENABLE",
        service_account=wanted.service_account,
    )


def _set_paused(server: Connection, one: Any, *, paused: bool) -> bool:
    """Whether that changed anything."""
    if (one.status == "DISABLED") == paused:
        return False
    recurring = server.recurring
    if paused:
        server.change("pause the schedule", recurring.recurring_run_service_disable_recurring_run, one.recurring_run_id)
    else:
        server.change("resume the schedule", recurring.recurring_run_service_enable_recurring_run, one.recurring_run_id)
    return True
