"""Schedules on Kubeflow: which one stays if a new one cannot be made, and what distinguishes them."""

from __future__ import annotations

import urllib.parse
from typing import Any

import pytest
from faulty_backend import VERSION, Backend, connected, fails

from headrace.common.errors import ServerError
from headrace.configs.schema.schedule import ScheduleConfig
from headrace.pipeline.kubeflow.server import schedules
from headrace.pipeline.kubeflow.server.connection import Connection

MINE = "headrace schedule, content of before"


def connected_to(backend: Backend, answer: dict[str, Any]) -> Connection:
    backend.faults = [fails(200, answer)]
    return connected(backend)


def wanted(**settings: Any) -> schedules.DesiredSchedule:
    return schedules.DesiredSchedule("taxi", "e", ScheduleConfig(**settings), "UTC", VERSION, "minio://bucket")


def kept(description: str, status: str = "ENABLED") -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    fields = {"recurring_run_id": "old", "display_name": "taxi", "created_at": at}
    return {"recurringRuns": [{**fields, "description": description, "status": status}]}


def test_the_old_schedule_continues_where_the_new_one_cannot_be_made(backend: Backend) -> None:
    old = kept("headrace schedule, content of before")
    backend.faults = [fails(200, old), fails(200, {}), fails(500), fails(200, old), fails(200, {})]
    with pytest.raises(ServerError, match="cannot create the schedule: HTTP 500"):
        schedules.apply_schedule(connected(backend), wanted(every="6h"))
    assert [path.rpartition("/")[2].partition("?")[0] for _, path in backend.seen] == [
        "recurringruns",
        "old:disable",
        "recurringruns",
        "recurringruns",
        "old:enable",
    ]


def test_the_old_schedule_continues_where_the_command_is_interrupted(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, plan = kept("headrace schedule, content of before"), wanted(every="6h")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedules, "_create", interrupted)
    for there, then in ((old, "old:enable"), (kept(plan.mark), "old:disable")):
        backend.faults = [fails(200, old), fails(200, {}), fails(200, there), fails(200, {})]
        backend.seen.clear()
        with pytest.raises(KeyboardInterrupt):
            schedules.apply_schedule(connected(backend), plan)
        reported = [path.rpartition("/")[2].partition("?")[0] for method, path in backend.seen if method == "POST"]
        assert reported[-1] == then


@pytest.mark.parametrize("release", ["2.16.0", "v2.17.1", "2.20.0-rc.1"])
def test_a_replaced_schedule_is_deleted_without_its_running_runs(backend: Backend, release: str) -> None:
    backend.release = release
    old = kept("headrace schedule, content of before")
    backend.faults = [fails(200, old), None, fails(200, {"recurring_run_id": "new"})]
    _, outcome = schedules.apply_schedule(connected(backend), wanted(every="6h"))
    assert outcome == "changed"
    assert backend.seen[-1] == ("DELETE", "/apis/v2beta1/recurringruns/old?propagation_policy=ORPHAN")


@pytest.mark.parametrize("release", ["2.14.3", "2.15.2", "unknown", ""])
def test_a_release_that_would_end_a_run_with_its_schedule_has_it_paused_until_the_run_has_ended(
    backend: Backend, release: str
) -> None:
    backend.release = release
    (found,) = schedules.find(connected_to(backend, kept(MINE)), "e", "taxi")
    for state, methods in (("RUNNING", ["GET", "POST", "GET"]), ("SUCCEEDED", ["GET", "POST", "GET", "DELETE"])):
        backend.seen.clear()
        backend.faults = [None, None, fails(200, {"runs": [{"run_id": "id-0", "state": state}]})]
        left = schedules.remove(connected(backend), [found])
        assert [one.recurring_run_id for one in left] == (["old"] if state == "RUNNING" else [])
        assert [method for method, _ in backend.seen] == methods
        assert backend.seen[1][1] == "/apis/v2beta1/recurringruns/old:disable"
        asked = urllib.parse.unquote(backend.seen[2][1])
        assert '"key": "recurring_run_id", "stringValue": "old"' in asked.replace("+", " ")
    assert "propagation_policy" not in backend.seen[-1][1]


def test_a_schedule_that_is_there_is_left_alone(backend: Backend) -> None:
    plan = wanted(cron="30 4 * * *")
    backend.faults = [fails(200, kept(plan.mark))]
    found, outcome = schedules.apply_schedule(connected(backend), plan)
    assert (found.recurring_run_id, outcome) == ("old", "unchanged")
    assert len(backend.seen) == 1


@pytest.mark.parametrize("description", ["", "every night, by hand"])
def test_a_recurring_run_that_was_made_by_hand_is_neither_changed_nor_deleted(
    backend: Backend, description: str
) -> None:
    backend.faults = [fails(200, kept(description)), fails(200, {"recurring_run_id": "new"})]
    made, outcome = schedules.apply_schedule(connected(backend), wanted(every="6h"))
    assert (made.recurring_run_id, outcome) == ("new", "made")
    assert [method for method, _ in backend.seen] == ["GET", "POST"]
    backend.faults = [fails(200, kept(description))]
    assert schedules.find(connected(backend), "e", "taxi") == []


def test_mark_of_a_schedule_distinguishes_its_settings() -> None:
    plans: list[dict[str, Any]] = [{"every": "6h"}, {"every": "7h"}, {"cron": "0 4 * * *"}]
    plans += [{"every": "6h", "catch_up": True}]
    plans += [{"every": "6h", "window": 3}, {"every": "6h", "concurrency": 2}, {"every": "6h", "pinned": False}]
    assert len({wanted(**plan).mark for plan in plans}) == len(plans)
