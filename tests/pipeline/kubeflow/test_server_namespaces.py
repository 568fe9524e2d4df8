"""The commands on a multi-user Kubeflow: who may do what in which namespace, and where each object ends up."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import forks
import pytest
from api_server import AUDIENCE_TOKEN, EDIT, VIEW, ApiServer
from compiled_trips import TRIPS, trips
from faulty_backend import fails, serving
from installed import without_pythonpath

from headrace.common.errors import ServerError
from headrace.configs.schema.schedule import ScheduleConfig
from headrace.pipeline.kubeflow.compiler import compile as compile_module
from headrace.pipeline.kubeflow.server import backfill, connection, runs, schedules
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.kubeflow.server.status import run_record
from headrace.pipeline.kubeflow.server.submit import submit
from headrace.pipeline.results.record import Status

GOLDEN = Path(__file__).with_name("golden") / "plain.golden"
"""What the pipeline compiles to."""
HEADRACE = Path(sys.executable).with_name("headrace")
RUNNER = frozenset({"runs/get", "runs/list"})
"""What the account of `kubernetes/base/runner.yaml` may do of what the API asks for."""
USERS = {
    "ann": {"team-a": EDIT, "team-b": EDIT},
    "bob": {"team-a": VIEW},
    "cleo": {"team-b": EDIT},
    "system:serviceaccount:team-a:headrace-runner": {"team-a": RUNNER},
}
SessionOf = Callable[..., Session]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving(ApiServer(USERS)) as alive:
        assert isinstance(alive, ApiServer)
        yield alive


@pytest.fixture
def session_of(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionOf:
    """The session of a user, who has a token, with a namespace in the config."""
    text = GOLDEN.read_text(encoding="utf-8")
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: text)

    def session(user: str, namespace: str = "team-a", *overrides: str) -> Session:
        (tmp_path / user).write_text(AUDIENCE_TOKEN.format(user))
        auth = f"kubeflow.server.auth={{kind: bearer, file: {tmp_path / user}}}"
        place = (f"kubeflow.server.endpoint={server.url}", f"kubeflow.namespace={namespace}")
        return Session.of(trips(*place, auth, *overrides))

    return session


def namespaces(server: ApiServer) -> dict[str, list[str]]:
    kinds = ("experiments", "pipelines", "runs", "recurringruns")
    return {kind: [one["namespace"] for one in server.objects[kind].values()] for kind in kinds}


@pytest.mark.slow
def test_every_command_works_in_the_namespace_of_the_config_and_leaves_nothing_elsewhere(
    server: ApiServer, session_of: SessionOf
) -> None:
    session = session_of("ann")
    _, submitted = submit(session)
    run_id = submitted.run.run_id
    assert session.run(None).run_id == session.run(submitted.run.display_name).run_id == run_id
    server.report(run_id, "FAILED", [{"display_name": "spans", "state": "FAILED"}])
    found = session.run(run_id)
    assert run_record(found, session.tasks(found), "trips").node("Spans").status is Status.FAILED
    runs.retry(session.server, found)
    assert runs.cancel(session.server, session.run(run_id)) == "asked"
    assert [one.made for one in backfill.backfill(session, ["1", "2"])] == [True, True]
    assert len(session.runs(10)) == 3
    nightly = schedules.submit_schedule(session, ScheduleConfig(every="6h"))
    hourly = schedules.submit_schedule(session, ScheduleConfig(every="1h", paused=True))
    assert [outcome for _, _, outcome in (nightly, hourly)] == ["made", "changed"]
    assert namespaces(server) == {
        "experiments": ["team-a"],
        "pipelines": ["team-a"],
        "runs": ["team-a"] * 3,
        "recurringruns": ["team-a"],
    }
    schedules.remove(session.server, schedules.find(session.server, session.experiment_id() or "", "trips"))
    assert namespaces(server)["recurringruns"] == []


@pytest.mark.slow
def test_pipelines_of_one_name_in_two_namespaces_do_not_meet(server: ApiServer, session_of: SessionOf) -> None:
    made = [submit(session_of("ann", namespace)) for namespace in ("team-a", "team-b")]
    assert all(version.uploaded and submitted.made for version, submitted in made)
    assert namespaces(server)["pipelines"] == ["team-a", "team-b"]
    (one,) = session_of("cleo", "team-b").runs(10)
    assert one.run_id == made[1][1].run.run_id
    with pytest.raises(ServerError, match=r"cannot read the run: HTTP 403: User 'cleo'"):
        session_of("cleo", "team-b").run(made[0][1].run.run_id)


@pytest.mark.slow
def test_who_may_only_view_sees_runs_and_is_told_what_may_not_be_done(
    server: ApiServer, session_of: SessionOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = r"HTTP 403: User 'bob'.*\n  this account may not do that; .* its rights in kubeflow.namespace"
    with pytest.raises(ServerError, match="cannot create the pipeline: " + refused):
        submit(session_of("bob"))
    _, submitted = submit(session_of("ann"))
    bob = session_of("bob")
    assert bob.run(None).run_id == submitted.run.run_id
    assert not submit(bob)[1].made  # the same content: nothing is sent that would change anything
    with pytest.raises(ServerError, match="cannot submit the run: " + refused):
        submit(bob, again=True)
    with pytest.raises(ServerError, match="cannot cancel the run: " + refused):
        runs.cancel(bob.server, submitted.run)
    other = GOLDEN.read_text(encoding="utf-8").replace("pipelineInfo:\n", "pipelineInfo:\n  description: another\n")
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: other)
    with pytest.raises(ServerError, match=r"cannot upload the pipeline: HTTP 400.*\n.*may not create "):
        submit(bob)
    assert len(server.objects["runs"]) == 1


@pytest.mark.parametrize(
    ("user", "namespace", "status"),
    [
        ("cleo", "team-a", 403),
        ("ann", "kubeflow", 403),
        ("nobody", "team-a", 401),
        ("system:serviceaccount:team-a:headrace-runner", "team-a", 403),
    ],
)
def test_without_rights_in_the_namespace_nothing_is_made(
    server: ApiServer, session_of: SessionOf, user: str, namespace: str, status: int
) -> None:
    with pytest.raises(ServerError, match=f"cannot find the pipeline: HTTP {status}") as error:
        submit(session_of(user, namespace))
    assert "kubeflow.server.auth" in str(error.value)
    assert not any(server.objects.values())


def test_an_interface_whose_api_server_is_away_is_asked_again_before_anything_is_made_for_everybody(
    server: ApiServer, session_of: SessionOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WAITS", (0.0, 0.0))
    away = fails(200, {"apiServerReady": False, "frontendTagName": "2.17.0"})
    server.faults = [away] * 3
    with pytest.raises(ServerError, match=r"health: .* the API server behind it"):
        session_of("ann")
    server.faults = [away] * 2
    assert session_of("ann").namespace == "team-a"
    server.faults = [fails(200, "<html>login</html>")]
    with pytest.raises(ServerError, match="health: it answers with a web page"):
        session_of("ann")
    assert not any(server.objects.values())


@pytest.mark.slow
def test_a_schedule_is_made_through_the_gateway_with_a_session_cookie_and_its_root_is_questioned(
    server: ApiServer, tmp_path: Path
) -> None:
    server.behind_gateway = True
    (tmp_path / "trips.yaml").write_text(GOLDEN.read_text(encoding="utf-8"))
    settings = (
        "schedule={cron: '0 5 * * *'}",
        f"kubeflow.server.endpoint={server.url}/pipeline",
        "kubeflow.server.auth={kind: cookie, env: KUBEFLOW_COOKIE}",
        "kubeflow.namespace=team-a",
    )
    options = [part for one in settings for part in ("--set", one)]
    environment = {**without_pythonpath(), "KUBEFLOW_COOKIE": "oauth2_proxy_kubeflow=session of ann"}
    command = [str(HEADRACE), "schedule", str(TRIPS), "--compiled", str(tmp_path / "trips.yaml"), *options]
    done = forks.run(command, cwd=TRIPS.parents[4], env=environment)
    assert done.returncode == 0, done.stderr
    (made,) = server.objects["recurringruns"].values()
    assert (made["namespace"], made["trigger"]["cron_schedule"]["cron"]) == ("team-a", "0 0 5 * * *")
    assert "the namespace team-a do not reach minio://mlpipeline/v2/artifacts" in done.stderr
    assert "kubeflow.pipeline_root: minio://mlpipeline/private-artifacts/team-a/v2/artifacts" in done.stderr
    assert os.environ.get("KUBEFLOW_COOKIE", "session of ann") not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("root", "questioned"),
    [
        ("minio://mlpipeline/v2/artifacts", True),
        ("minio://mlpipeline", True),
        ("minio://mlpipeline/private-artifacts/team-ab/v2", True),
        ("minio://mlpipeline/private-artifacts/team-a/v2/artifacts", False),
        ("minio://mlpipeline/private/team-a", False),
        ("minio://mlpipeline/shared/trips", False),
        ("minio://another/v2/artifacts", False),
        ("s3://mlpipeline/v2/artifacts", False),
    ],
)
def test_a_root_that_the_namespace_s_keys_do_not_reach_is_questioned(
    session_of: SessionOf, root: str, questioned: bool
) -> None:
    session = session_of("ann", "team-a", f"kubeflow.pipeline_root={root}")
    assert (session.root_note() is not None) == questioned
    assert Session(session.config, session.server, None).root_note() is None
