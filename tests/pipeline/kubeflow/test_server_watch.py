"""A run that is followed while tokens are rotated and the server is away: against a real HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headrace.common.errors import ServerError
from headrace.configs.loading.loader import load
from headrace.configs.schema.kubeflow import ServerAuth, ServerConfig
from headrace.pipeline.kubeflow.server import status
from headrace.pipeline.kubeflow.server.connection import Connection, connect
from headrace.pipeline.kubeflow.server.runs import get_run
from headrace.pipeline.kubeflow.server.session import Session
from headrace.pipeline.results.record import RunRecord, Status

CONFIG = load(str(Path(__file__).parents[3] / "configs/taxi.yaml"))
TASKS = {"components": {}, "root": {"dag": {"tasks": {"trainer": {"taskInfo": {"name": "Trainer"}}}}}}


class Server:
    """`answers`: the status of each answer to come, and the run's state; the last stays. `shown`: what it was shown."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = [(200, "RUNNING")]
        self.shown: list[str | None] = []
        self.url = ""

    def answer(self) -> tuple[int, dict[str, Any]]:
        status, state = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return status, {"run_id": "id-0", "display_name": "taxi-1", "state": state, "pipeline_spec": TASKS}


@pytest.fixture
def server() -> Iterator[Server]:
    reported = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            reported.shown.append(self.headers.get("Authorization") or self.headers.get("Cookie"))
            status, words = reported.answer()
            text = json.dumps(words).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as alive:
        threading.Thread(target=alive.serve_forever, args=(0.05,), daemon=True).start()
        reported.url = f"http://127.0.0.1:{alive.server_port}"
        yield reported
        alive.shutdown()


class Screen:
    def update(self, record: RunRecord) -> None:
        self.last = record


class Time:
    """Passes while one sleeps."""

    now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now


def connected(server: Server, time: Time, auth: ServerAuth | None = None) -> Connection:
    connection = connect(ServerConfig(endpoint=server.url, auth=auth or ServerAuth()))
    connection._sleep = time.sleep
    return connection


def follow(server: Server) -> tuple[RunRecord, list[str], Time]:
    time, notes = Time(), list[str]()
    session = Session(CONFIG, connected(server, time), None)
    run = get_run(session.server, "id-0")
    clock = status.Clock(time.sleep, time.clock)
    shown, _ = status.follow(session, run, Screen(), notes.append, clock)  # type: ignore[arg-type]
    return shown, notes, time


@pytest.mark.parametrize(("kind", "text"), [("in_cluster", "Bearer {}"), ("bearer", "Bearer {}"), ("cookie", "{}")])
def test_rewritten_secret_is_used_in_the_next_request(server: Server, tmp_path: Path, kind: Any, text: str) -> None:
    file = tmp_path / "secret"
    file.write_text("a=one")
    connection = connected(server, Time(), ServerAuth(kind=kind, file=str(file)))
    get_run(connection, "id-0")
    file.write_text("a=two")
    get_run(connection, "id-0")
    assert server.shown == [text.format("a=one"), text.format("a=two")]


def test_a_watch_outlives_a_server_that_is_away_for_a_while(server: Server) -> None:
    away = [(503, "RUNNING")] * 30
    server.answers = [(200, "RUNNING"), (200, "RUNNING"), *away, (200, "RUNNING"), (200, "SUCCEEDED")]
    shown, notes, time = follow(server)
    assert shown.status is Status.DONE
    assert time.now > 60
    assert len(notes) == 2
    assert "HTTP 503" in notes[0]
    assert "10 minutes" in notes[0]
    assert "answers again" in notes[1]


@pytest.mark.parametrize("status", [503, 401])
def test_a_watch_that_ends_without_the_run_says_that_the_run_continues(server: Server, status: int) -> None:
    server.answers = [(200, "RUNNING"), (200, "RUNNING"), (status, "RUNNING")]
    with pytest.raises(ServerError) as error:
        follow(server)
    assert f"HTTP {status}" in str(error.value)
    assert "The run taxi-1 continues" in str(error.value)
    assert "`headrace status --watch`" in str(error.value)
