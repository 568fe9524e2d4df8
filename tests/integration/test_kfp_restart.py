"""Kubeflow's own API server, which restarts in the middle of a submission: between any two requests, and between what
it did and its answer.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from command import ROOT
from kfp_commands import CONFIG, IMAGE, Built
from kfp_server import Server

from headrace.common.errors import ServerError
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler import compile as compile_module
from headrace.pipeline.kubeflow.server import submit
from headrace.pipeline.kubeflow.server.session import Session

pytestmark = pytest.mark.slow
TRIES_UNTIL_BACK = 2


@dataclass
class Way:
    """To a server that goes away with request number `at` (from 1), before or after it does what is asked for, and is
    back when somebody has waited for it twice. `asked`: how many requests there were.
    """

    url: str = ""
    at: int = 0
    done: bool = False
    asked: int = 0
    waits: int = 0
    went: bool = False

    @property
    def down(self) -> bool:
        return self.went and self.waits < TRIES_UNTIL_BACK

    def wait(self, _seconds: float) -> None:
        self.waits += 1


@contextlib.contextmanager
def way_to(server: Server) -> Iterator[Way]:
    way, host = Way(), urlsplit(server.url).netloc

    class Relay(BaseHTTPRequestHandler):
        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            way.asked += 1
            goes = way.asked == way.at and not way.went
            if way.down or (goes and not way.done):
                way.went = True
                return
            connection = http.client.HTTPConnection(host, timeout=60)
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            if goes:
                way.went = True
                return
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"] or "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        way.url = f"http://127.0.0.1:{relay.server_port}"
        yield way
        relay.shutdown()


def submitted(way: Way, name: str, at: int = 0) -> bool:
    """Whether `submit` did it, or a ServerError came, which the command shows without a traceback. at: the request of
    the submission with which the server goes away.
    """
    settings = (IMAGE, f"pipeline.name={name}", f"kubeflow.server.endpoint={way.url}")
    try:
        session = Session.of(load(ROOT / CONFIG, overrides=list(settings)))
        session.server._sleep = way.wait
        way.at, way.asked = at, 0
        submit.submit(session)
    except ServerError:
        return False
    return True


@pytest.mark.parametrize("done", [False, True])
def test_a_submission_in_which_the_server_restarts_makes_one_run_at_the_second_try_at_the_latest(
    server: Server, done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = compile_module.compile_pipeline(load(ROOT / CONFIG, overrides=[IMAGE]))
    monkeypatch.setattr(compile_module, "compile_pipeline", lambda _, **_given: text)  # once for all
    at_once = []
    for at in itertools.count(1):
        there = Built(server, 1000 + 2 * at + done)
        with way_to(server) as way:
            way.done = done
            at_once.append(submitted(way, there.pipeline, at))
            way.waits = TRIES_UNTIL_BACK
            if not at_once[-1]:
                assert submitted(way, there.pipeline)
        made = (there._pipelines(), there.versions(), there._experiments(), there.runs())
        assert [len(found) for found in made] == [1, 1, 1, 1]
        if not way.went:
            break
    assert len(at_once) > 8  # as many requests has a submission
    assert at_once.count(False) <= 4  # only what changes something is not asked again by the same command
