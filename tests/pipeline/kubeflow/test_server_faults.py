"""What the client does when the server is down, slow, failing or refusing: against a real HTTP server on loopback."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from configs.errors import ConfigError, RunError, ServerError
from configs.kubeflow_server import ServerAuth, ServerConfig
from configs.schedule import ScheduleConfig
from pipeline.kubeflow.server import runs, schedules
from pipeline.kubeflow.server.connection import Connection, connect
from pipeline.kubeflow.server.logs import Kept, fnv1a, log, pods
from pipeline.kubeflow.server.versions import Version, graph
from pipeline.kubeflow.store import Store

VERSION = Version("p", "v", "taxi-0123", uploaded=False)
REQUEST = runs.Request(pipeline="taxi", parameters={"epochs": 3}, pipeline_root="minio://bucket")
COMPILED = {
    "pipeline_spec": {
        "root": {
            "dag": {
                "tasks": {"trainer": {"componentRef": {"name": "comp-trainer"}, "retryPolicy": {"maxRetryCount": 1.0}}}
            }
        },
        "components": {"comp-trainer": {"executorLabel": "exec-trainer"}},
    },
    "platform_spec": {
        "platforms": {
            "kubernetes": {
                "deploymentSpec": {
                    "executors": {"exec-trainer": {"podMetadata": {"labels": {"team": "a", "cost": "b"}}}}
                }
            }
        }
    },
}
RETRIED = graph(COMPILED)["trainer"]
Answer = tuple[int, Any]


class Backend:
    """Keeps runs, as the API does. `faults`: what happens in the place of an answer, request by request."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.seen: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Callable[[Backend, BaseHTTPRequestHandler, dict[str, Any]], Answer | None] | None] = []

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        if method == "POST" and body:
            return 200, self.make(body)
        if method != "GET":
            return 200, {}
        if path.endswith("/healthz"):
            return 200, {"multi_user": False}
        found = urllib.parse.parse_qs(urllib.parse.urlparse(path).query).get("filter")
        name = json.loads(found[0])["predicates"][0]["stringValue"] if found else None
        return 200, {"runs": [run for run in self.runs if name in (None, run["display_name"])]}

    def make(self, body: dict[str, Any]) -> dict[str, Any]:
        at = dt.datetime.now(dt.UTC).isoformat()
        self.runs.append({**body, "run_id": f"id-{len(self.runs)}", "state": "PENDING", "created_at": at})
        return self.runs[-1]

    @property
    def submissions(self) -> int:
        return self.seen.count(("POST", "/apis/v2beta1/runs"))


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


def fails(status: int, words: Any = None) -> Callable[..., Answer]:
    return lambda *_: (status, {"message": "out of order"} if words is None else words)


@pytest.fixture
def backend() -> Iterator[Backend]:
    alive = Backend()

    class Handler(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"

        def serve(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            alive.seen.append((self.command, self.path))
            alive.headers.append(dict(self.headers))
            fault = alive.faults.pop(0) if alive.faults else None
            found = fault(alive, self, body) if fault else alive.answer(self.command, self.path, body)
            if found is None:
                return
            status, words = found
            text = words.encode() if isinstance(words, str) else json.dumps(words).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/dex/auth")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = serve  # noqa: N815 - the names that http.server asks for

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        alive.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        yield alive
        server.shutdown()


def connected(backend: Any, **settings: Any) -> Connection:
    return connect(ServerConfig(endpoint=backend.url, **settings))


def submit(server: Connection, *, again: bool = False, name: str | None = None, epochs: int = 3) -> runs.Submitted:
    request = runs.Request("taxi", {"epochs": epochs}, "minio://bucket", name=name)
    return runs.submit(server, "e", VERSION, request, again=again)


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
    with pytest.raises(ServerError, match=rf"cannot submit the run: HTTP {status}: out of order") as error:
        submit(connected(backend))
    assert "looks for it before it makes one" in str(error.value)
    assert backend.submissions == 1
    assert backend.runs == []


def test_a_submission_without_an_answer_in_time_is_looked_for(backend: Backend) -> None:
    def late(backend: Backend, handler: Any, body: dict[str, Any]) -> None:
        backend.make(body)
        threading.Event().wait(3)
        handler.close_connection = True

    backend.faults = [None, late]
    assert submit(connected(backend, timeout_seconds=1)).run.run_id == "id-0"
    assert backend.submissions == 1


def test_a_server_too_slow_to_read_is_told(backend: Backend) -> None:
    def late(*_: Any) -> Answer:
        threading.Event().wait(2)
        return 200, {}

    backend.faults = [late]
    with pytest.raises(ServerError, match=r"cannot look for the run: no answer in kubeflow.server.timeout_seconds"):
        submit(connected(backend, timeout_seconds=1))
    assert backend.submissions == 0


def test_reading_goes_on_after_a_moment_s_fault(backend: Backend) -> None:
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
    ("status", "words", "told"),
    [
        (
            401,
            {"message": "token expired"},
            "HTTP 401: token expired\n  the token or cookie is missing, wrong or expired",
        ),
        (403, {"error": "no"}, "HTTP 403: no\n  this account may not do that"),
        (302, "<html>", "the server sends to a login page"),
        (200, "<html>login</html>", "perhaps its login page\n  the token or cookie is missing, wrong or expired"),
        (200, "fine", "this is no answer of Kubeflow Pipelines"),
        (404, "<html>nginx</html>", "HTTP 404"),
        (404, "404 page not found\n", "the API is not at this address; see kubeflow.server.endpoint"),
    ],
)
def test_a_refusal_says_what_to_do(backend: Backend, status: int, words: Any, told: str) -> None:
    backend.faults = [fails(status, words)]
    with pytest.raises(ServerError) as error:
        submit(connected(backend))
    assert told in str(error.value)
    assert "<html>" not in str(error.value)
    assert backend.submissions == 0


def test_a_server_that_is_down_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = connect(ServerConfig(endpoint=f"http://127.0.0.1:{port}"))
    server._sleep = lambda _: None
    with pytest.raises(ServerError, match=r"cannot look for the run: it cannot be reached \(.*refused\)"):
        submit(server)


def test_a_run_that_is_being_cancelled_is_neither_ended_again_nor_gone_on_with(backend: Backend) -> None:
    run = SimpleNamespace(run_id="id-0", display_name="taxi-1", state="CANCELING")
    assert runs.cancel(connected(backend), run)
    with pytest.raises(RunError, match="taxi-1 is still being cancelled; retry it when it has ended"):
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
    monkeypatch.setattr(runs, "WAIT", 0)
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
    with pytest.raises(RunError, match="there is a run nightly already, of other content"):
        submit(server, name="nightly", epochs=4)
    assert backend.seen[-2] == ("DELETE", "/apis/v2beta1/runs/id-1")


def test_a_run_that_was_made_is_named_where_the_look_after_it_fails(backend: Backend) -> None:
    backend.faults = [None, None, *[fails(503)] * 3]
    server = connected(backend)
    server._sleep = lambda _: None
    with pytest.raises(ServerError, match=r"HTTP 503.*\n  the run taxi-\w+ was made, id-0"):
        submit(server)


def test_the_key_tells_content_parameters_and_root_apart() -> None:
    requests = [
        REQUEST,
        runs.Request("taxi", {"epochs": 4}, "minio://bucket"),
        runs.Request("taxi", {"epochs": 3}, "minio://other"),
    ]
    keys = [request.key(VERSION) for request in requests] + [REQUEST.key(Version("p", "v", "taxi-9", uploaded=True))]
    assert len(set(keys)) == len(keys)
    assert REQUEST.key(Version("other", "ids", "taxi-0123", uploaded=True)) == REQUEST.key(VERSION)


def test_a_name_taken_by_other_content_is_refused_before_anything_is_sent(backend: Backend) -> None:
    server = connected(backend)
    submit(server, name="nightly")
    with pytest.raises(RunError, match="there is a run nightly already"):
        submit(server, name="nightly", epochs=4)
    assert backend.submissions == 1


@pytest.mark.parametrize("kind", ["bearer", "cookie", "in_cluster"])
def test_the_secret_is_sent_and_never_told(backend: Backend, tmp_path: Path, kind: Any) -> None:
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


def run_with(child: str | None) -> Any:
    children = [SimpleNamespace(pod_name=child)] if child else None
    detail = SimpleNamespace(display_name="trainer", child_tasks=children)
    return SimpleNamespace(run_id="id-0", display_name="taxi-1", run_details=SimpleNamespace(task_details=[detail]))


@pytest.mark.parametrize(("text", "value"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)])
def test_the_hash_is_that_of_its_authors(text: str, value: int) -> None:
    assert fnv1a(text) == value


def test_a_log_is_read_by_the_name_of_the_last_try_s_pod(backend: Backend, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("tells-nobody")
    backend.faults = [fails(200, '{"error_message":"no such pod"}'), fails(200, "step 1\n")]
    server = connected(backend, auth=ServerAuth(kind="bearer", file=str(token)))
    kept = Kept(Store({}, str(tmp_path)), "s3://bucket", "kubeflow")
    found = log(server, run_with("taxi-abc-123"), "trainer", RETRIED, kept)
    assert found == "step 1\n"
    node = "taxi-abc.root.trainer.executor"
    assert [path for _, path in backend.seen] == [
        f"/apis/v1alpha1/runs/id-0/nodes/taxi-abc-metadata-0-2-retry-system-container-impl-{fnv1a(f'{node}({number})')}/log"
        for number in (1, 0)
    ]
    assert backend.headers[0]["authorization"] == "Bearer tells-nobody"


def test_a_pod_under_conditions_has_them_in_the_name_of_its_node() -> None:
    inner = {"trainer": {"componentRef": {"name": "comp-trainer"}}}
    components = {
        "comp-condition-1": {"dag": {"tasks": {"condition-2": {"componentRef": {"name": "comp-condition-2"}}}}},
        "comp-condition-2": {"dag": {"tasks": inner}},
    }
    root = {"dag": {"tasks": {"condition-1": {"componentRef": {"name": "comp-condition-1"}}}}}
    (task,) = graph({"root": root, "components": components}).items()
    node = "taxi-abc.root.condition-1.condition-2.trainer.executor"  # Argo's `taskNodeName`: a graph's, and a task's
    assert pods(run_with("taxi-abc-123"), *task) == [f"taxi-abc-system-container-impl-{fnv1a(node)}"]


def test_a_log_that_is_gone_is_told_with_the_way_to_it(backend: Backend, tmp_path: Path) -> None:
    kept = Kept(Store({}, str(tmp_path)), "minio://bucket/taxi", "kubeflow")
    backend.faults = [fails(200, '{"error_message":"no such pod"}')]
    with pytest.raises(RunError) as refused:
        log(connected(backend), run_with("taxi-abc-123"), "trainer", {}, kept)
    assert "kubectl logs -n kubeflow -c main taxi-abc-system-container-impl-" in str(refused.value)
    assert "copy in minio://bucket/taxi/id-0/trainer: it wrote none there yet" in str(refused.value)
    with pytest.raises(RunError, match="trainer has no pod in the run taxi-1"):
        log(connected(backend), run_with(None), "trainer", {}, kept)


def test_a_log_that_is_gone_is_read_from_the_launchers_copy_of_the_last_try(backend: Backend, tmp_path: Path) -> None:
    for number in range(2):
        file = tmp_path / "minio" / "bucket" / "taxi" / "id-0" / "trainer" / "salt" / f"executor-logs-{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"try {number}\n")
        os.utime(file, (number, number))
    (file.parent / "model").mkdir()
    (file.parent / "model" / "executor-logs").write_text("no log")
    backend.faults = [fails(200, '{"error_message":"no such pod"}')]
    kept = Kept(Store({}, str(tmp_path)), "minio://bucket/taxi", "kubeflow")
    assert log(connected(backend), run_with("taxi-abc-123"), "trainer", {}, kept) == "try 1\n"


def wanted(**settings: Any) -> schedules.Wanted:
    return schedules.Wanted("taxi", "e", ScheduleConfig(**settings), "UTC", VERSION, "minio://bucket")


def kept(description: str, status: str = "ENABLED") -> dict[str, Any]:
    at = "2026-01-01T00:00:00Z"
    fields = {"recurring_run_id": "old", "display_name": "taxi", "created_at": at}
    return {"recurringRuns": [{**fields, "description": description, "status": status}]}


def test_the_old_schedule_goes_on_where_the_new_one_cannot_be_made(backend: Backend) -> None:
    old = kept("headrace schedule, content of before")
    backend.faults = [fails(200, old), fails(200, {}), fails(500), fails(200, old), fails(200, {})]
    with pytest.raises(ServerError, match="cannot make the schedule: HTTP 500"):
        schedules.schedule(connected(backend), wanted(every="6h"))
    assert [path.rpartition("/")[2].partition("?")[0] for _, path in backend.seen] == [
        "recurringruns",
        "old:disable",
        "recurringruns",
        "recurringruns",
        "old:enable",
    ]


def test_the_old_schedule_goes_on_where_the_command_is_interrupted(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, plan = kept("headrace schedule, content of before"), wanted(every="6h")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedules, "_make", interrupted)
    for there, then in ((old, "old:enable"), (kept(plan.mark), "old:disable")):
        backend.faults = [fails(200, old), fails(200, {}), fails(200, there), fails(200, {})]
        backend.seen.clear()
        with pytest.raises(KeyboardInterrupt):
            schedules.schedule(connected(backend), plan)
        told = [path.rpartition("/")[2].partition("?")[0] for method, path in backend.seen if method == "POST"]
        assert told[-1] == then


def test_a_schedule_that_is_there_is_left_alone(backend: Backend) -> None:
    plan = wanted(cron="30 4 * * *")
    backend.faults = [fails(200, kept(plan.mark))]
    found, outcome = schedules.schedule(connected(backend), plan)
    assert (found.recurring_run_id, outcome) == ("old", "unchanged")
    assert len(backend.seen) == 1


def test_the_mark_of_a_schedule_tells_its_settings_apart() -> None:
    plans = [{"every": "6h"}, {"every": "7h"}, {"cron": "0 4 * * *"}, {"every": "6h", "catch_up": True}]
    plans += [{"every": "6h", "window": 3}, {"every": "6h", "concurrency": 2}, {"every": "6h", "pinned": False}]
    assert len({wanted(**plan).mark for plan in plans}) == len(plans)
