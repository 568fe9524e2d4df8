"""A server of Kubeflow Pipelines that a test may let fail, request by request: real HTTP on loopback."""

from __future__ import annotations

import datetime as dt
import email
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import yaml

from headrace.configs.schema.kubeflow import ServerConfig
from headrace.pipeline.kubeflow.server.connection import Connection, connect
from headrace.pipeline.kubeflow.server.versions import PipelineVersion

VERSION = PipelineVersion("p", "v", "taxi-0123", uploaded=False)
Answer = tuple[int, Any]


class Backend:
    """Keeps runs, as the API does. `faults`: what happens instead of an answer, request by request."""

    def __init__(self) -> None:
        self.url = ""
        self.release = "2.17.0"
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
            return 200, {"multi_user": False, "tag_name": self.release}
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


def fails(status: int, words: Any = None) -> Callable[..., Answer]:
    return lambda *_: (status, {"message": "out of order"} if words is None else words)


def uploaded(headers: Message, sent: bytes) -> dict[str, Any]:
    """The compiled pipeline in an upload, in the form in which the API shows it."""
    whole = email.message_from_bytes(f"Content-Type: {headers['Content-Type']}\n\n".encode() + sent)
    (file,) = (part.get_payload(decode=True) for part in whole.walk() if part.get_filename())
    first, *more = yaml.load_all(cast(bytes, file), yaml.CSafeLoader)
    return {"uploaded": {"pipeline_spec": first, "platform_spec": more[0] if more else {}}}


@contextmanager
def serving(backend: Backend | None = None) -> Iterator[Backend]:
    """Serve this one, or one that keeps runs and nothing else."""
    alive = backend or Backend()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each body waits for the client's ACK of the headers

        def serve(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = uploaded(self.headers, sent) if "multipart" in str(self.headers) else json.loads(sent or b"{}")
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
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        alive.url = f"http://127.0.0.1:{server.server_port}"
        yield alive
        server.shutdown()


def connected(backend: Backend, **settings: Any) -> Connection:
    return connect(ServerConfig(endpoint=backend.url, **settings))
