"""Runs whose workflows are gone from the cluster, a server that restarts, and names at the limits of the API."""

from __future__ import annotations

import datetime as dt
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from api_server import ApiServer
from compiled_trips import trips
from faulty_backend import Answer, Backend, serving
from test_server_logs import WORKFLOW, pod_of

from headrace.common.errors import RunError, ServerError
from headrace.configs.schema.schedule import ScheduleConfig
from headrace.pipeline.kubeflow.compiler import compile as compile_module
from headrace.pipeline.kubeflow.server import runs, schedules, status
from headrace.pipeline.kubeflow.server import submit as submission
from headrace.pipeline.kubeflow.server.logs import LauncherLogs, fnv1a, read_log
from headrace.pipeline.kubeflow.server.schedules import submit_schedule
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.submit import submit
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.results.record import RunRecord, Status

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).with_name("golden") / "plain.golden"
NODES = (".root", ".root.spans", ".root.spans.executor")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving(ApiServer()) as alive:
        assert isinstance(alive, ApiServer)
        yield alive


@pytest.fixture(autouse=True)
def _compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: text)


@pytest.fixture
def session(server: ApiServer) -> Session:
    return session_of(server)


def session_of(server: ApiServer, *overrides: str) -> Session:
    made = Session.of(trips(f"kubeflow.server.endpoint={server.url}", *overrides))
    made.server._sleep = lambda _: None
    return made


def submitted(session: Session) -> str:
    return str(submit(session)[1].run.run_id)


def state_of(session: Session, run_id: str) -> tuple[str, Status]:
    run = session.run(run_id)
    return runs.state_word(run, dt.datetime.now(dt.UTC)), run_record(session, run).status


def run_record(session: Session, run: Any) -> RunRecord:
    return status.run_record(run, session.tasks(run), session.pipeline)


def details(state: str) -> list[dict[str, Any]]:
    """Of the task Spans and its pod, as the API lists Argo's nodes."""
    times = {"start_time": "2026-11-21T04:00:00Z", "end_time": "2026-11-21T04:00:09Z"}
    children = [{"pod_name": f"{WORKFLOW}-{fnv1a(WORKFLOW + node)}"} for node in NODES]
    return [{"display_name": "spans", "state": state, **times, "child_tasks": children}]


@pytest.mark.parametrize("end", ["SUCCEEDED", "FAILED"])
def test_an_hour_after_its_end_a_run_shows_the_same_and_a_failed_one_can_be_retried(
    server: ApiServer, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    run_id = submitted(session)
    server.archive[pod_of(NODES[-1])] = "reads 3 spans\n"
    server.report(run_id, end, details(end))
    copies = LauncherLogs(Store({}, str(tmp_path)), "minio://bucket/trips", "kubeflow")

    def shown() -> tuple[RunRecord, str, str]:
        run = session.run(run_id)
        log = read_log(session.server, run, "spans", session.tasks(run)["spans"], copies)
        return run_record(session, run), runs.state_word(run, dt.datetime.now(dt.UTC)), log

    before = shown()
    server.pass_time(minutes=59)
    assert run_id in server.workflows
    server.pass_time(minutes=2)
    assert run_id not in server.workflows
    assert shown() == before
    assert before[1:] == (end.lower(), "reads 3 spans\n")
    assert runs.cancel(session.server, session.run(run_id)) == "ended"
    assert not submit(session)[1].made  # the run counts as it did
    if end == "FAILED":
        runs.retry(session.server, session.run(run_id))
        assert run_id in server.workflows
        assert state_of(session, run_id) == ("running", Status.RUNNING)
    else:
        with pytest.raises(RunError, match="`headrace submit --again`"):
            runs.retry(session.server, session.run(run_id))


def test_a_run_whose_workflow_is_gone_is_lost_once_it_was_cancelled(server: ApiServer, session: Session) -> None:
    run_id = submitted(session)
    server.report(run_id, "RUNNING")
    del server.workflows[run_id]
    assert state_of(session, run_id) == ("running", Status.RUNNING)  # nothing that the API reports differs
    assert runs.cancel(session.server, session.run(run_id)) == "lost"
    assert state_of(session, run_id) == ("lost", Status.INTERRUPTED)
    assert runs.cancel(session.server, session.run(run_id)) == "lost"
    with pytest.raises(RunError, match=r"lost.*submit --again"):
        runs.retry(session.server, session.run(run_id))


def test_a_watch_of_a_run_that_is_lost_ends(server: ApiServer, session: Session) -> None:
    run_id = submitted(session)
    server.report(run_id, "RUNNING")
    slept: list[float] = []

    def cancelled_by_somebody(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            del server.workflows[run_id]
            assert runs.cancel(session.server, session.run(run_id)) == "lost"

    screen: Any = Screen()
    clock = status.Clock(cancelled_by_somebody, lambda: 0.0)
    shown, run = status.follow(session, session.run(run_id), screen, lambda _: None, clock)
    assert (shown.status, runs.state_word(run, dt.datetime.now(dt.UTC))) == (Status.INTERRUPTED, "lost")
    assert len(slept) == 3


class Screen:
    def update(self, record: RunRecord) -> None:
        self.last = record


def test_a_cancellation_that_the_cluster_reports_late_is_waited_for_also_after_an_earlier_one(
    server: ApiServer, session: Session
) -> None:
    run_id, waits = submitted(session), list[float]()
    for state in ("RUNNING", "CANCELING", "FAILED"):
        server.report(run_id, state)
    server.pass_time(hours=-3)  # all of that was long ago
    for entry in server.objects["runs"][run_id]["state_history"]:
        entry["update_time"] = server.time.isoformat()
    server.pass_time(hours=3)
    runs.retry(session.server, session.run(run_id))

    def report_after_the_second(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            server.report(run_id, "CANCELING")

    session.server._sleep = report_after_the_second
    assert runs.cancel(session.server, session.run(run_id)) == "asked"
    assert state_of(session, run_id) == ("cancelling", Status.RUNNING)
    assert len(waits) == 2


@pytest.mark.parametrize("release", ["2.17.0", "2.15.2"])
def test_a_running_run_outlives_its_schedule(server: ApiServer, session: Session, release: str) -> None:
    server.release = release
    _, made, _ = submit_schedule(session, ScheduleConfig(every="6h"))
    run_id = submitted(session)
    server.objects["runs"][run_id]["recurring_run_id"] = made.recurring_run_id
    server.report(run_id, "RUNNING")
    submit_schedule(session, ScheduleConfig(every="1h"))
    schedules.remove(session.server, schedules.find(session.server, session.experiment_id() or "", "trips"))
    assert run_id in server.workflows
    assert runs.cancel(session.server, session.run(run_id)) == "asked"


def restart(done: bool) -> Callable[[Backend, BaseHTTPRequestHandler, dict[str, Any]], Answer | None]:
    """The connection breaks, before or after the server did what it was asked for."""

    def fault(backend: Backend, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if done:
            backend.answer(handler.command, handler.path, body)
        handler.connection.shutdown(socket.SHUT_RDWR)

    return fault


@pytest.mark.parametrize("done", [False, True])
def test_a_submission_in_which_the_server_restarts_makes_one_of_each_at_the_second_try_at_the_latest(
    done: bool,
) -> None:
    """With any of its requests, before or after it is carried out; the next request meets a server that is away."""
    failed = []
    for at in range(30):
        with serving(ApiServer()) as server:
            assert isinstance(server, ApiServer)
            there = session_of(server)
            server.faults = [*[None] * at, restart(done), restart(done=False)]
            try:
                submit(there)
            except ServerError:
                failed.append(at)
                server.faults = []
                submit(there)
            assert [len(server.objects[kind]) for kind in ("pipelines", "versions", "experiments", "runs")] == [1] * 4
            if server.faults:
                break
    assert at > 8, "a submission has as many requests"
    assert len(failed) <= 4, "only what changes something is not asked again by the same command"


def test_commands_that_submit_the_same_in_one_moment_leave_one_run_and_name_it(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "ATTEMPTS", 200)  # however busy the machine is
    sessions = [session_of(server) for _ in range(3)]
    submitted(sessions[0])  # so that pipeline, version and experiment are there
    start = threading.Barrier(len(sessions))

    def again(session: Session) -> str:
        session.server._sleep = time.sleep
        start.wait()
        return str(submit(session, name="nightly")[1].run.run_id)

    with ThreadPoolExecutor(len(sessions)) as pool:
        named = set(pool.map(again, sessions))
    left = [one["run_id"] for one in server.objects["runs"].values() if one["display_name"] == "nightly"]
    assert named == set(left)
    assert len(left) == 1


def test_names_at_their_limits_are_kept(server: ApiServer) -> None:
    """Of the pipeline 63 characters, of the experiment 128, of the run 250 and the number of `--again`."""
    pipeline, experiment, name = "p" * 63, "e" * 128, "r" * 250
    there = session_of(server, f"pipeline.name={pipeline}", f"kubeflow.server.experiment={experiment}")
    made = [submit(there, name=name, again=again)[1].run.display_name for again in (False, True)]
    assert made == [name, f"{name}-2"]
    _, schedule, _ = submit_schedule(there, ScheduleConfig(every="6h"))
    assert schedule.display_name == pipeline
    assert [one["display_name"] for one in server.objects["experiments"].values()] == [experiment]
    assert there.run(f"{name}-2").display_name == f"{name}-2"
