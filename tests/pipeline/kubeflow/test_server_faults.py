"""What the client does when the server is down, slow, failing or refusing: against a real HTTP server on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faulty_backend import VERSION, Answer, Backend, connected, fails

from headrace.common.errors import ConfigError, RunError, ServerError
from headrace.configs.schema.kubeflow import ServerAuth, ServerConfig
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server import submit as submission
from headrace.pipeline.kubeflow.server.connection import Connection, connect
from headrace.pipeline.kubeflow.server.submit import RunRequest, SubmittedRun, create_run
from headrace.pipeline.kubeflow.server.versions import PipelineVersion
from headrace.trainer.service.ports import free_port

REQUEST = RunRequest(pipeline="taxi", parameters={"epochs": 3}, pipeline_root="minio://bucket")


def made_but(status: int) -> Callable[..., Answer | None]:
    """The run is made, and the answer is a fault; 0: the connection breaks."""

    def fault(backend: Backend, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> Answer | None:
        if body:
            backend.make(body)
        if status:
            return status, {"message": "database is locked"}
        handler.connection.shutdown(socket.SHUT_RDWR)
        return None

    return fault


def submit(server: Connection, *, again: bool = False, name: str | None = None, epochs: int = 3) -> SubmittedRun:
    request = RunRequest("taxi", {"epochs": epochs}, "minio://bucket", name=name)
    return create_run(server, "e", VERSION, request, again=again)


@pytest.mark.parametrize("status", [500, 503, 0])
def test_a_run_that_was_made_though_the_answer_failed_is_found_and_not_made_again(
    backend: Backend, status: int
) -> None:
    backend.faults = [None, made_but(status)]
    done = submit(connected(backend))
    assert done.run.run_id == "id-0"
    assert backend.submissions == len(backend.runs) == 1
    assert not submit(connected(backend)).made
    assert backend.submissions == 1


@pytest.mark.parametrize("status", [500, 503])
def test_a_submission_that_fails_is_sent_once_and_says_so(backend: Backend, status: int) -> None:
    backend.faults = [None, fails(status)]
    with pytest.raises(ServerError, match=rf"cannot submit .*: HTTP {status}: out of order") as error:
        submit(connected(backend))
    assert "the same command looks for it" in str(error.value)
    assert backend.submissions == 1
    assert backend.runs == []


def unanswered(reported: threading.Event, *, made: bool) -> Callable[..., None]:
    """No answer before the test says so; the run may be made all the same."""

    def fault(backend: Backend, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if made:
            backend.make(body)
        reported.wait()
        handler.close_connection = True

    return fault


@pytest.mark.slow
def test_a_submission_without_an_answer_in_time_is_looked_for(backend: Backend) -> None:
    over = threading.Event()
    backend.faults = [None, unanswered(over, made=True)]
    assert submit(connected(backend, timeout_seconds=3)).run.run_id == "id-0"
    over.set()
    assert backend.submissions == 1


@pytest.mark.slow
def test_a_server_too_slow_to_read_is_reported(backend: Backend) -> None:
    over = threading.Event()
    backend.faults = [unanswered(over, made=False)]
    with pytest.raises(ServerError, match=r"no answer in kubeflow.server.timeout_seconds"):
        submit(connected(backend, timeout_seconds=3))
    over.set()
    assert backend.submissions == 0


def test_reading_continues_after_a_moment_s_fault(backend: Backend) -> None:
    backend.faults = [fails(503), fails(500)]
    server = connected(backend)
    server._sleep = lambda _: None
    assert submit(server).made
    assert len(backend.runs) == 1


def test_nothing_is_submitted_where_it_cannot_be_looked_for_first(backend: Backend) -> None:
    backend.faults = [fails(500)] * 3
    server = connected(backend)
    server._sleep = lambda _: None
    with pytest.raises(ServerError, match="cannot look for the run: HTTP 500"):
        submit(server)
    assert backend.submissions == 0


@pytest.mark.parametrize(
    ("status", "words", "reported"),
    [
        (
            401,
            {"message": "token expired"},
            "HTTP 401: token expired\n  the token or cookie ",
        ),
        (403, {"error": "no"}, "HTTP 403: no\n  this account "),
        (302, "<html>", "redirects to a login page"),
        (200, "<html>login</html>", "perhaps its login page\n  the token or cookie "),
        (200, "fine", "not one of Kubeflow Pipelines"),
        (404, "<html>nginx</html>", "HTTP 404"),
        (404, "404 page not found\n", "the API is not at this address; kubeflow.server.endpoint"),
    ],
)
def test_a_refusal_says_what_to_do(backend: Backend, status: int, words: Any, reported: str) -> None:
    backend.faults = [fails(status, words)]
    with pytest.raises(ServerError) as error:
        submit(connected(backend))
    assert reported in str(error.value)
    assert "<html>" not in str(error.value)
    assert backend.submissions == 0


def test_a_server_that_is_down_is_reported() -> None:
    server = connect(ServerConfig(endpoint=f"http://127.0.0.1:{free_port()}"))
    server._sleep = lambda _: None
    with pytest.raises(ServerError, match=r"for the run: .*reached \(.*refused\)"):
        submit(server)


def test_a_run_that_is_being_cancelled_is_neither_ended_again_nor_gone_on_with(backend: Backend) -> None:
    run = SimpleNamespace(run_id="id-0", display_name="taxi-1", state="CANCELING", state_history=None)
    assert runs.cancel(connected(backend), run) == "asked"
    with pytest.raises(RunError, match="taxi-1 is still being cancelled"):
        runs.retry(connected(backend), run)
    assert backend.seen == []


def test_two_commands_in_one_moment_leave_the_first_run(backend: Backend) -> None:
    first = submit(connected(backend)).run

    def blind(*_: Any) -> Answer:
        return 200, {"runs": []}

    backend.faults = [blind]
    done = submit(connected(backend))
    assert (done.made, done.run.run_id) == (False, first.run_id)
    assert backend.seen[-3:-1] == [("POST", "/apis/v2beta1/runs/id-1:terminate"), ("DELETE", "/apis/v2beta1/runs/id-1")]


def test_a_run_stands_back_behind_a_younger_one_that_stays_as_its_command_had_looked_before(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "WAIT", 0)
    server = connected(backend)
    first = submit(server).run
    backend.runs[0]["created_at"] = "2999-01-01T00:00:00Z"
    backend.faults = [lambda *_: (200, {"runs": []})]
    assert submit(server).run.run_id == first.run_id
    assert backend.seen[-2] == ("DELETE", "/apis/v2beta1/runs/id-1")


def test_of_two_contents_under_one_name_in_one_moment_the_second_is_refused(backend: Backend) -> None:
    server = connected(backend)
    submit(server, name="nightly")
    backend.faults = [lambda *_: (200, {"runs": []})]
    with pytest.raises(RunError, match="a run nightly exists with other content"):
        submit(server, name="nightly", epochs=4)
    assert backend.seen[-2] == ("DELETE", "/apis/v2beta1/runs/id-1")


def test_a_run_that_was_made_is_named_where_the_look_after_it_fails(backend: Backend) -> None:
    backend.faults = [None, None, *[fails(503)] * 3]
    server = connected(backend)
    server._sleep = lambda _: None
    with pytest.raises(ServerError, match=r"HTTP 503.*\n.* taxi-\w+ was created, id-0"):
        submit(server)


def test_key_distinguishes_content_parameters_and_root() -> None:
    requests = [
        REQUEST,
        RunRequest("taxi", {"epochs": 4}, "minio://bucket"),
        RunRequest("taxi", {"epochs": 3}, "minio://other"),
    ]
    keys = [request.key(VERSION) for request in requests] + [
        REQUEST.key(PipelineVersion("p", "v", "taxi-9", uploaded=True))
    ]
    assert len(set(keys)) == len(keys)
    assert REQUEST.key(PipelineVersion("other", "ids", "taxi-0123", uploaded=True)) == REQUEST.key(VERSION)


def test_a_name_taken_by_other_content_is_refused_before_anything_is_sent(backend: Backend) -> None:
    server = connected(backend)
    submit(server, name="nightly")
    with pytest.raises(RunError, match="a run nightly exists"):
        submit(server, name="nightly", epochs=4)
    assert backend.submissions == 1


@pytest.mark.parametrize("kind", ["bearer", "cookie", "in_cluster"])
def test_the_secret_is_sent_and_never_repeated(backend: Backend, tmp_path: Path, kind: Any) -> None:
    text = "session=tells-nobody" if kind == "cookie" else "tells-nobody"
    file = tmp_path / "secret"
    file.write_text(text + "\n")
    backend.faults = [fails(401)]
    with pytest.raises(ServerError) as error:
        submit(connected(backend, auth=ServerAuth(kind=kind, file=str(file))))
    header, value = ("Cookie", text) if kind == "cookie" else ("authorization", f"Bearer {text}")
    assert backend.headers[0][header] == value
    assert "tells-nobody" not in str(error.value)


def test_an_address_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"kubeflow\.server\.endpoint: name the address"):
        connect(ServerConfig())
