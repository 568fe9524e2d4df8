"""Runs whose workflow is gone from the cluster while the API still shows them as running or as being cancelled."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from api_server import ApiServer
from compiled_trips import trips
from faulty_backend import serving
from kube_api import CALL_SERVICES, LIST_WORKFLOWS, KubeApi, use_kubeconfig

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.server import runs, status
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.results.record import Status


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving(ApiServer()) as alive:
        assert isinstance(alive, ApiServer)
        yield alive


@pytest.fixture
def session(server: ApiServer) -> Session:
    made = Session.of(trips(f"kubeflow.server.endpoint={server.url}"))
    made.server._sleep = lambda _: None
    return made


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[KubeApi], KubeApi]]:
    """Serve a cluster, and make it that of the kubeconfig."""
    with ExitStack() as stack:

        def served(api: KubeApi) -> KubeApi:
            stack.enter_context(serving(api))
            use_kubeconfig(monkeypatch, tmp_path, api.url)
            return api

        yield served


def running(server: ApiServer, name: str, experiment: str = "e") -> str:
    """The id of a run that the cluster has reported."""
    server.objects["experiments"].setdefault(experiment, {"experiment_id": experiment, "namespace": ""})
    _, made = server.answer("POST", "/apis/v2beta1/runs", {"display_name": name, "experiment_id": experiment})
    server.report(made["run_id"], "RUNNING")
    return str(made["run_id"])


def words(session: Session, *ids: str) -> list[str]:
    """What `headrace runs` prints of these runs."""
    found = [session.server.runs.run_service_get_run(run_id) for run_id in ids]
    session.mark_lost(found)
    return [runs.state_word(run, dt.datetime.now(dt.UTC)) for run in runs.await_reports(session.server, found)]


def test_a_running_run_without_a_workflow_is_lost_if_the_kubeconfig_reaches_its_cluster(
    server: ApiServer, session: Session, cluster: Callable[[KubeApi], KubeApi]
) -> None:
    lost = running(server, "a")
    del server.workflows[lost]
    assert words(session, lost) == ["running"]  # without a kubeconfig nothing shows it
    api = cluster(KubeApi(server))
    assert words(session, lost) == ["lost"]
    assert api.headers[0]["authorization"] == "Bearer mine"
    alive = running(server, "b")
    assert words(session, lost, alive) == ["lost", "running"]
    run = session.server.runs.run_service_get_run(lost)
    session.mark_lost([run])
    with pytest.raises(RunError, match=r"lost.*submit --again"):
        runs.retry(session.server, run)


def test_a_user_who_may_not_call_services_learns_it_from_the_other_workflows_of_the_experiment(
    server: ApiServer, session: Session, cluster: Callable[[KubeApi], KubeApi]
) -> None:
    lost = running(server, "a")
    del server.workflows[lost]
    cluster(KubeApi(server, {LIST_WORKFLOWS}))
    assert words(session, lost) == ["running"]
    running(server, "b", experiment="of another namespace, perhaps")
    assert words(session, lost) == ["running"]
    running(server, "c")
    assert words(session, lost) == ["lost"]


@pytest.mark.parametrize("rights", [{CALL_SERVICES}, set()])
def test_a_user_who_may_not_list_workflows_learns_nothing(
    server: ApiServer, session: Session, cluster: Callable[[KubeApi], KubeApi], rights: set[str]
) -> None:
    lost = running(server, "a")
    del server.workflows[lost]
    cluster(KubeApi(server, rights))
    assert words(session, lost) == ["running"]


def test_a_kubeconfig_of_another_cluster_makes_no_run_lost(
    server: ApiServer, session: Session, cluster: Callable[[KubeApi], KubeApi]
) -> None:
    alive, elsewhere = running(server, "a"), ApiServer()
    running(elsewhere, "b")
    cluster(KubeApi(elsewhere))
    assert words(session, alive) == ["running"]


def test_a_cancelled_run_that_the_cluster_does_not_report_is_lost_in_the_list_too(
    server: ApiServer, session: Session, cluster: Callable[[KubeApi], KubeApi]
) -> None:
    lost, late, waits = running(server, "a"), running(server, "b"), list[float]()
    del server.workflows[lost]
    for run_id in (lost, late):
        runs.cancel(session.server, session.server.runs.run_service_get_run(run_id))

    def report_after_the_second(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            server.report(late, "CANCELING")

    session.server._sleep = report_after_the_second
    assert words(session, lost, late) == ["lost", "cancelling"]
    assert sum(waits) == runs.REPORT_SECONDS
    waits.clear()
    cluster(KubeApi(server))
    assert words(session, lost, late) == ["lost", "cancelling"]
    assert not waits, "the cluster shows at once what the API shows by its silence"


def test_a_command_about_a_lost_run_waits_once_and_says_so_and_not_at_all_with_a_kubeconfig(
    server: ApiServer, session: Session, cluster: Callable[[KubeApi], KubeApi]
) -> None:
    lost, waits, notes = running(server, "a"), list[float](), list[str]()
    del server.workflows[lost]
    runs.cancel(session.server, session.server.runs.run_service_get_run(lost))
    session.server._sleep = waits.append
    run = session.run(lost, notes.append)
    again = runs.read_again(session.server, run)
    assert [runs.state_word(one, dt.datetime.now(dt.UTC)) for one in (run, again)] == ["lost", "lost"]
    assert sum(waits) == runs.REPORT_SECONDS
    (note,) = notes
    assert "up to 30 s" in note
    assert " a " in note
    waits.clear()
    cluster(KubeApi(server))
    run = session.run(lost, notes.append)
    assert runs.state_word(run, dt.datetime.now(dt.UTC)) == "lost"
    assert (waits, len(notes)) == ([], 1)


def test_nobody_knows_how_long_a_component_of_a_lost_run_took(server: ApiServer, session: Session) -> None:
    run = session.find(running(server, "a"))
    started = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    detail = {"display_name": "spans", "state": "RUNNING", "start_time": started, "end_time": None, "error": None}
    run.run_details = SimpleNamespace(task_details=[SimpleNamespace(**detail)])
    tasks = {"spans": {"taskInfo": {"name": "Spans"}}}
    assert status.run_record(run, tasks, "p").node("Spans").seconds(time.time()) == pytest.approx(3600, abs=60)
    run.gone = True
    node = status.run_record(run, tasks, "p").node("Spans")
    assert (node.status, node.seconds(time.time())) == (Status.INTERRUPTED, None)


def test_a_watch_ends_within_a_minute_of_the_loss(
    server: ApiServer, session: Session, cluster: Callable[[KubeApi], KubeApi], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, now, api = running(server, "a"), [0.0], cluster(KubeApi(server))
    monkeypatch.setattr(Session, "tasks", lambda *_: {"spans": {"taskInfo": {"name": "Spans"}}})

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] == 100:
            del server.workflows[run_id]

    screen: Any = Screen()
    clock = status.Clock(sleep, lambda: now[0])
    shown, run = status.follow(session, runs.get_run(session.server, run_id), screen, print, clock)
    assert (shown.status, runs.state_word(run, dt.datetime.now(dt.UTC))) == (Status.INTERRUPTED, "lost")
    assert now == [120.0]
    assert [path.startswith("/apis/argoproj.io/") for _, path in api.seen] == [True, True, True, False]


def test_a_component_that_never_started_has_ended_within_a_minute_of_the_loss(
    server: ApiServer, session: Session, cluster: Callable[[KubeApi], KubeApi]
) -> None:
    run_id, now = running(server, "a"), [0.0]
    cluster(KubeApi(server))
    loss = status.LossWatch(session, status.Clock(now=lambda: now[0]))

    def spans() -> Status:
        run = runs.get_run(session.server, run_id)
        loss.mark(run)
        return status.run_record(run, {"spans": {"taskInfo": {"name": "Spans"}}}, "p").node("Spans").status

    assert not spans().ended
    del server.workflows[run_id]
    now[0] = status.LOST_SECONDS - 1
    assert not spans().ended
    now[0] = status.LOST_SECONDS
    assert spans().ended


class Screen:
    def update(self, record: object) -> None:
        self.last = record
