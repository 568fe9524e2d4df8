"""Runs on Kubeflow that were cancelled, and those whose workflow the cluster has lost."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from faulty_backend import Backend, connected, fails

from headrace.common.errors import RunError, ServerError
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.status import run_record
from headrace.pipeline.results.record import Status

TASKS = {
    "trainer": {"taskInfo": {"name": "Trainer"}},
    "pusher": {"taskInfo": {"name": "Pusher"}, "dependentTasks": ["trainer"]},
}
WORKFLOW_GONE = {
    "message": "Failed to terminate run id-0 due to error terminating its workflow: InternalServerError: Failed to"
    ' terminate workflow taxi-abc due to patching error: workflows.argoproj.io "taxi-abc" not found'
}


def at(minutes_ago: float) -> str:
    return (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=minutes_ago)).isoformat()


def run_with(backend: Backend, state: str, *history: tuple[str, float], tasks: Any = ()) -> Any:
    """A run as the client reads it from the server. history: states, and how many minutes ago each began."""
    body = {
        "run_id": "id-0",
        "display_name": "taxi-1",
        "state": state,
        "created_at": at(60),
        "state_history": [{"state": entry, "update_time": at(ago)} for entry, ago in history],
        "run_details": {"task_details": list(tasks)},
    }
    backend.faults = [fails(200, body)] * 20  # as often as it is asked for
    server = connected(backend)
    server._sleep = lambda _: None
    run = runs.get_run(server, "id-0")
    backend.faults = []
    return run


CANCELLED = (("PENDING", 50), ("RUNNING", 49), ("CANCELING", 40), ("FAILED", 39))


@pytest.mark.parametrize(
    ("state", "history", "word"),
    [
        ("CANCELED", (), "cancelled"),
        ("FAILED", CANCELLED, "cancelled"),
        ("FAILED", (("RUNNING", 49), ("CANCELING", 45), ("RUNNING", 44), ("FAILED", 39)), "cancelled"),
        ("FAILED", (("RUNNING", 49), ("FAILED", 39)), "failed"),
        ("FAILED", (*CANCELLED, ("RUNNING", 30), ("FAILED", 20)), "failed"),
        ("SUCCEEDED", (*CANCELLED, ("RUNNING", 30), ("SUCCEEDED", 20)), "succeeded"),
        ("CANCELING", (("RUNNING", 49), ("CANCELING", 9)), "cancelling"),
        ("CANCELING", (("RUNNING", 49), ("CANCELING", 11)), "lost"),
        (
            "CANCELING",
            (("RUNNING", 49), ("CANCELING", 30), ("FAILED", 29), ("RUNNING", 9), ("CANCELING", 1)),
            "cancelling",
        ),
        ("CANCELING", (("RUNNING", 49),), "lost"),  # and the cluster does not report that it is
        ("RUNNING", (("RUNNING", 49),), "running"),
    ],
)
def test_history_of_a_run_has_its_state(
    backend: Backend, state: str, history: tuple[tuple[str, float], ...], word: str
) -> None:
    assert runs.state_word(run_with(backend, state, *history), dt.datetime.now(dt.UTC)) == word


def test_a_cancelled_run_is_interrupted_and_what_did_not_run_has_no_duration(backend: Backend) -> None:
    tasks = [
        {"display_name": "trainer", "state": "RUNNING", "start_time": at(45)},
        {"display_name": "pusher", "state": "SKIPPED", "start_time": at(39), "end_time": at(39)},
    ]
    shown = run_record(run_with(backend, "FAILED", *CANCELLED, tasks=tasks), TASKS, "taxi")
    assert shown.status is Status.INTERRUPTED
    assert shown.node("Trainer").status is Status.INTERRUPTED
    pusher = shown.node("Pusher")
    assert (pusher.status, pusher.started, pusher.finished) == (Status.SKIPPED, None, None)


def test_a_lost_run_has_ended_for_whoever_waits_for_it(backend: Backend) -> None:
    run = run_with(backend, "CANCELING", ("CANCELING", 11))
    assert run_record(run, TASKS, "taxi").status is Status.INTERRUPTED
    assert run_record(run_with(backend, "CANCELING", ("CANCELING", 9)), TASKS, "taxi").status is Status.RUNNING
    assert runs.cancel(connected(backend), run) == "lost"
    with pytest.raises(RunError, match=r"lost.*submit --again"):
        runs.retry(connected(backend), run)


def test_a_run_whose_workflow_the_server_does_not_find_is_lost(backend: Backend) -> None:
    run = run_with(backend, "RUNNING", ("RUNNING", 49))
    backend.faults = [fails(500, WORKFLOW_GONE)]
    assert runs.cancel(connected(backend), run) == "lost"
    backend.faults = [None]
    assert runs.cancel(connected(backend), run) == "asked"
    backend.faults = [fails(500, {"message": "the database is away"})]
    with pytest.raises(ServerError, match="the database is away"):
        runs.cancel(connected(backend), run)
