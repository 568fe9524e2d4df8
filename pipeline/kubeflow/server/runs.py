"""Runs on the server: listed, found, read, cancelled and retried."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from headrace.common.errors import RunError, ServerError
from headrace.pipeline.kubeflow.server.connection import Connection, ended_filter, list_all, list_pages, name_filter
from headrace.pipeline.kubeflow.server.errors import NOT_FOUND
from headrace.pipeline.kubeflow.server.tasks import ENDED, add_tasks

CANCELING = "CANCELING"
LOST_AFTER = dt.timedelta(minutes=10)
"""A cancellation takes half a minute at most: the time that Kubernetes gives a pod to end by itself."""
REPORT_SECONDS, REPORT_WAIT = 30.0, 2.0
"""How long to wait until the cluster reports a cancellation, and between looks. It does so within a second or two: the
server changes the workflow, and Kubeflow's persistence agent reports each change.
"""
INTERNAL = 500


def of_pipeline(server: Connection, experiment_id: str, pipeline_id: str) -> Iterator[Any]:
    """The runs of a pipeline in an experiment, which other pipelines may share, the newest first."""
    method = server.runs.run_service_list_runs
    newest_first = {"experiment_id": experiment_id, "sort_by": "created_at desc"}
    for run in list_pages(server, "list the runs", method, "runs", **newest_first):
        if _is_of(run, pipeline_id):
            yield run


def ended_since(server: Connection, experiment_id: str, pipeline_id: str, since: float) -> list[Any]:
    """The runs of a pipeline that ended at `since` (Unix seconds) or later, by the time of their end."""
    method, what = server.runs.run_service_list_runs, "list the runs that ended"
    found = list_all(server, what, method, "runs", experiment_id=experiment_id, filter=ended_filter(since))
    own = [run for run in found if run.state in ENDED and run.finished_at is not None and _is_of(run, pipeline_id)]
    return sorted(own, key=lambda run: (run.finished_at, run.run_id))


def _is_of(run: Any, pipeline_id: str) -> bool:
    chosen = run.pipeline_version_reference
    return chosen is not None and chosen.pipeline_id == pipeline_id


def named_runs(server: Connection, experiment_id: str, name: str) -> list[Any]:
    """The runs with that name, the oldest first."""
    method = server.runs.run_service_list_runs
    found = list_all(server, "look for the run", method, "runs", experiment_id=experiment_id, filter=name_filter(name))
    return sorted(found, key=age)


def age(run: Any) -> tuple[Any, str]:
    """A sort key that puts the oldest run first."""
    return run.created_at, run.run_id


def find_by_name(server: Connection, experiment_id: str, name: str) -> Any | None:
    """The oldest run with that name, or None."""
    return next(iter(named_runs(server, experiment_id, name)), None)


def find_run(server: Connection, experiment_id: str | None, pipeline_id: str | None, name: str | None) -> Any:
    """A run with its tasks, by its id or name; None for the newest of the pipeline.

    Raises RunError if there is none.
    """
    found = None
    if experiment_id is not None and pipeline_id is not None and name is None:
        found = next(of_pipeline(server, experiment_id, pipeline_id), None)
    elif experiment_id is not None and name is not None:
        found = find_by_name(server, experiment_id, name)
    if found is None and name is not None:
        found = find_by_id(server, name)
    if found is None:
        wanted = f"no run {name}" if name else "no run of this pipeline yet"
        raise RunError(f"{server.endpoint}: there is {wanted}; `headrace runs` lists the runs")
    return _existing(server, found.run_id)


def get_run(server: Connection, run_id: str) -> Any:
    """A run with its tasks, as `await_reports` returns it. Raises RunError if it was deleted."""
    (run,) = await_reports(server, [_existing(server, run_id)])
    return run


def read_again(server: Connection, run: Any) -> Any:
    """The run as it is now, as `get_run` returns it, but without waiting a second time for a report."""
    if not getattr(run, "unreported", False):
        return get_run(server, run.run_id)
    again = _existing(server, run.run_id)
    again.unreported = _is_unreported(again)
    return again


def await_reports(
    server: Connection, found: Sequence[Any], notify: Callable[[str], None] = lambda _: None
) -> list[Any]:
    """The same runs, with those that were cancelled a moment ago read again until the cluster has reported that.

    That takes half a minute at most for all of them. After that they get `unreported = True`: their workflows must be
    gone from the cluster. Runs with `gone` are not read again. notify: called before the wait, if there is one.
    """
    reported, waited = list(found), 0.0
    if unreported := [run.display_name for run in reported if _is_unreported(run)]:
        notify(
            f"waiting up to {REPORT_SECONDS:.0f} s for the cluster to report that {', '.join(unreported)} is cancelled"
        )
    while any(map(_is_unreported, reported)) and waited < REPORT_SECONDS:
        server.wait(REPORT_WAIT)
        waited += REPORT_WAIT
        reported = [_existing(server, run.run_id) if _is_unreported(run) else run for run in reported]
    for run in reported:
        run.unreported = _is_unreported(run)
    return reported


def _existing(server: Connection, run_id: str) -> Any:
    run = find_by_id(server, run_id)
    if run is None:
        raise RunError(f"{server.endpoint}: the run {run_id} no longer exists: it was deleted")
    return run


def find_by_id(server: Connection, run_id: str) -> Any | None:
    """A run with its tasks, or None if there is none."""
    try:
        run = server.read("read the run", server.runs.run_service_get_run, run_id)
    except ServerError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    return add_tasks(server, run)


def is_cancelled(run: Any) -> bool:
    """Whether a run ended because it was cancelled.

    Argo calls such a workflow Failed, and so does the server; only the run's history shows CANCELING, since its last
    retry.
    """
    if run.state == "CANCELED":
        return True
    cancelled = canceling = False
    for entry in run.state_history or ():
        if entry.state in ENDED:
            cancelled, canceling = canceling, False
        canceling = canceling or entry.state == CANCELING
    return run.state == "FAILED" and cancelled


def is_lost(run: Any, now: dt.datetime) -> bool:
    """Whether the workflow of a run is gone from the cluster, so that nothing is left that could report the run's end.

    It is not in the cluster (`kubeconfig.mark_lost`), or the run has been CANCELING for long, or nobody has reported
    that it is.
    """
    if getattr(run, "gone", False):
        return True
    if run.state != CANCELING:
        return False
    since = _canceling_since(run)
    return getattr(run, "unreported", False) if since is None else now - since > LOST_AFTER


def _is_unreported(run: Any) -> bool:
    """Whether the server was asked to cancel the run, and the cluster has reported nothing since.

    The server sets the state at once, but adds CANCELING to the history only when the workflow is reported
    (`TerminateRun` and `UpdateRun` in `backend/src/apiserver/storage/run_store.go`, 2.14 to 2.17).
    """
    return run.state == CANCELING and _canceling_since(run) is None and not getattr(run, "gone", False)


def _canceling_since(run: Any) -> dt.datetime | None:
    last = run.state_history[-1] if run.state_history else None
    return last.update_time if last is not None and last.state == CANCELING else None


def state_word(run: Any, now: dt.datetime) -> str:
    """The state of a run as one word for the terminal."""
    if is_cancelled(run):
        return "cancelled"
    if is_lost(run, now):
        return "lost"
    return {CANCELING: "cancelling"}.get(run.state, str(run.state or "unknown").lower())


def cancel(server: Connection, run: Any) -> Literal["asked", "ended", "lost"]:
    """Ask the server to end a run.

    Returns "ended" if the run had ended before, and "lost" if its workflow is gone from the cluster, so that nothing of
    it runs. The server refuses to end a run twice, so one that is being cancelled is left alone.
    """
    if run.state in ENDED:
        return "ended"
    if run.state == CANCELING:
        return "lost" if is_lost(run, dt.datetime.now(dt.UTC)) else "asked"
    try:
        server.change("cancel the run", server.runs.run_service_terminate_run, run.run_id)
    except ServerError as error:
        if not _has_no_workflow(error):
            raise
        return "lost"
    return "asked"


def _has_no_workflow(error: ServerError) -> bool:
    """Whether the server did not find the run's workflow in the cluster, which it reports as an internal error."""
    return error.status == INTERNAL and "workflow" in str(error) and "not found" in str(error)


def retry(server: Connection, run: Any) -> None:
    """Continue from the tasks that failed. Raises RunError if there is nothing to continue."""
    now = dt.datetime.now(dt.UTC)
    if is_lost(run, now):
        raise RunError(
            f"the run {run.display_name} is lost: its workflow is gone from the cluster, so it cannot continue;"
            " `headrace submit --again` creates another run"
        )
    if run.state == CANCELING:
        raise RunError(f"the run {run.display_name} is still being cancelled; retry it when it has ended")
    if run.state not in ("FAILED", "CANCELED"):
        raise RunError(
            f"the run {run.display_name} cannot continue ({state_word(run, now)}): only a run that failed or was"
            " cancelled can; `headrace submit --again` creates another run"
        )
    server.change("retry the run", server.runs.run_service_retry_run, run.run_id)
