"""A stand-in for Kubeflow Model Registry on loopback, with the paths, statuses and rules of its REST API.

with model_registry() as registry:                # or model_registry(api="v1", token="Bearer x")
    registry.versions("taxi")["1795402861"]["customProperties"]

It fails on request, which the server does not. Names are unique among versions of a model (409), a PATCH replaces the
fields that it has, `customProperties` as a whole, and lists come in pages; test_registration_server.py compares its
answers with the server's. All requests are noted: test_registration_specs.py checks their bodies against the published
definitions.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGE = 2
"""Items in one page, however many are asked for, so that clients have to follow the pages."""


@dataclass(frozen=True)
class Noted:
    """A request. path: with the query."""

    method: str
    path: str
    body: dict[str, Any] | None


@dataclass
class Registry:
    """refuse: how many of the next requests are answered with 503; fail_at: a path whose POST is, once; away_after: a
    path after whose next POST no request gets an answer; away: whether that is so; silent: a path whose POSTs get
    none, unlike all other requests; both: the
    clients that look for a model at the same time, each of which waits there for the others, for a second at most.
    """

    api: str
    token: str | None
    url: str = ""
    refuse: int = 0
    fail_at: str | None = None
    away_after: str | None = None
    away: bool = False
    silent: str | None = None
    both: threading.Barrier | None = None
    requests: list[Noted] = field(default_factory=list)
    rows: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {"registered_models": [], "model_versions": [], "artifacts": []}
    )

    def versions(self, model: str) -> dict[str, dict[str, Any]]:
        """The versions of a registered model by name."""
        ids = [one["id"] for one in self.rows["registered_models"] if one["name"] == model]
        return {one["name"]: one for one in self.rows["model_versions"] if one["registeredModelId"] in ids}

    def texts(self, model: str, key: str) -> dict[str, str | None]:
        """A custom property of every version."""
        return {
            name: one["customProperties"].get(key, {}).get("string_value") for name, one in self.versions(model).items()
        }

    def artifacts(self, model: str) -> dict[str, list[dict[str, Any]]]:
        """The artifacts of every version."""
        return {
            name: [artifact for artifact in self.rows["artifacts"] if artifact["of"] == one["id"]]
            for name, one in self.versions(model).items()
        }

    def answer(  # noqa: PLR0911 - one for each path
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> tuple[int, Any]:
        """The status and the body of an answer."""
        place, query = urlsplit(path).path, {key: one[0] for key, one in parse_qs(urlsplit(path).query).items()}
        base = f"/api/model_registry/{self.api}"
        if not place.startswith(f"{base}/"):
            return 404, {"code": "404", "message": "no such path"}
        place = place.removeprefix(base)
        if method == "POST" and self.fail_at and place.endswith(self.fail_at):
            self.fail_at = None
            return 503, {"code": "503", "message": "not now"}
        if place == "/registered_model" and method == "GET":
            with contextlib.suppress(threading.BrokenBarrierError):
                if self.both is not None:
                    self.both.wait(1)
            found = [one for one in self.rows["registered_models"] if one["name"] == query["name"]]
            return (200, found[0]) if found else (404, {"code": "404", "message": "no registered model found"})
        if method == "POST" and body is not None and place in {"/registered_models", "/model_versions"}:
            return self._made(place[1:], body)
        if listed := re.fullmatch(r"/registered_models/(\w+)/versions", place):
            return self._page(
                [one for one in self.rows["model_versions"] if one["registeredModelId"] == listed[1]], query
            )
        if listed := re.fullmatch(r"/model_versions/(\w+)/artifacts", place):
            if method == "GET":
                return self._page([one for one in self.rows["artifacts"] if one["of"] == listed[1]], query)
            return self._made("artifacts", {**(body or {}), "of": listed[1]})
        if (one := re.fullmatch(r"/model_versions/(\w+)", place)) and method == "PATCH":
            (row,) = (row for row in self.rows["model_versions"] if row["id"] == one[1])
            row.update(body or {})
            return 200, row
        return 404, {"code": "404", "message": "no such path"}

    def _made(self, kind: str, body: dict[str, Any]) -> tuple[int, Any]:
        of = body.get("registeredModelId")
        if any(one["name"] == body["name"] and one.get("registeredModelId") == of for one in self.rows[kind]):
            return 409, {"code": "409", "message": f"{body['name']} already exists"}
        row = {"state": "LIVE", **body, "id": str(sum(map(len, self.rows.values())) + 1)}
        self.rows[kind].append(row)
        return 201, row

    def _page(self, items: list[dict[str, Any]], query: dict[str, str]) -> tuple[int, Any]:
        start = int(query.get("nextPageToken") or 0)
        end = start + min(PAGE, int(query.get("pageSize", PAGE)))
        more = str(end) if end < len(items) else ""
        return 200, {"items": items[start:end], "nextPageToken": more, "pageSize": PAGE, "size": len(items)}


@contextlib.contextmanager
def model_registry(api: str = "v1alpha3", token: str | None = None) -> Iterator[Registry]:
    """An empty registry. token: what the header `Authorization` has to be; None for anything."""
    registry = Registry(api, token)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(None)

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_PATCH(self) -> None:
            self.do_POST()

        def _reply(self, body: dict[str, Any] | None) -> None:
            registry.requests.append(Noted(self.command, self.path, body))
            silent = registry.silent
            if registry.away or (self.command == "POST" and silent and self.path.endswith(silent)):
                self.close_connection = True
                return
            status, answer = 401, {"code": "401", "message": "unauthorized"}
            if registry.refuse:
                registry.refuse -= 1
                status, answer = 503, {"code": "503", "message": "not now"}
            elif registry.token is None or self.headers["Authorization"] == registry.token:
                status, answer = registry.answer(self.command, self.path, body)
            after = registry.away_after
            registry.away = bool(self.command == "POST" and after and self.path.endswith(after))
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield registry
        server.shutdown()
