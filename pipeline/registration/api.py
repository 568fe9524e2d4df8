"""JSON over HTTP with the server of a model registry.

api = Api.of(config.deploy.registry.mlflow, os.environ)
api.get("/api/2.0/mlflow/registered-models/get", name="taxi")

No error shows a header or a query. Reads are tried again; writes are not, as a lost answer would make two of one.
"""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.common.credentials import redact
from headrace.common.names import one_line
from headrace.configs.schema.model_registry import RegistryServer
from headrace.pipeline.notify import transport
from headrace.pipeline.notify.transport import DeliveryError, Endpoint

SECONDS = 10.0
"""To connect, and to wait for each part of an answer."""
FILE_SECONDS = 120.0
"""The same for the answer after a file, which the server may have to hand on."""
MOST_ANSWER = 1 << 24
"""Bytes of an answer."""
_MOST_WORDS = 300
_MOVED, _ELSEWHERE = frozenset({301, 308}), frozenset({302, 303, 307})
"""Statuses of redirects that last, and of others."""


@dataclass(frozen=True)
class Api:
    """A server. url: without a slash at the end; variable: the one that `authorization` is from."""

    url: str
    authorization: str | None = None
    ca_file: str | None = None
    variable: str | None = None
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of(cls, server: RegistryServer, environ: Mapping[str, str]) -> Api:
        """The server in the config. Raises DeliveryError if the variable with its token is not set."""
        variable = server.authorization_env
        authorization = None if variable is None else transport.environment(variable, environ)
        return cls(server.url.rstrip("/"), authorization, server.ca_file, variable)

    def get(self, path: str, **query: str | int) -> dict[str, Any]:
        """The answer to a GET. Raises DeliveryError."""
        asked = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        return transport.with_tries(lambda: self._exchange("GET", asked, None), self.sleep)

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a POST or PATCH. Raises DeliveryError."""
        return self._exchange(method, path, json.dumps(body, allow_nan=False).encode())

    def put_file(self, path: str, file: Path) -> None:
        """PUT the content of a file. Raises DeliveryError, and OSError if it cannot be read."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(file.stat().st_size)}
        with file.open("rb") as content:
            try:
                transport.exchange(self._at(path), "PUT", content, headers, timeout=FILE_SECONDS, most=1)
            except DeliveryError as error:
                raise self._explained(error) from None

    def _exchange(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body else {})}
        to = self._at(path)
        try:
            answer = transport.exchange(to, method, body, headers, timeout=SECONDS, most=MOST_ANSWER)
        except DeliveryError as error:
            raise self._explained(error) from None
        try:
            found = json.loads(answer or b"{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise DeliveryError(f"{to.shown} answers with something else than JSON; is its URL the one of the API?")
        return found

    def _at(self, path: str) -> Endpoint:
        return Endpoint(self.url + path, transport.host_of(self.url), self.authorization, self.ca_file)

    def _explained(self, error: DeliveryError) -> DeliveryError:
        """The error with the server's own words, and what to change."""
        said, way = _said(error.answer), self._way_out(error.status)
        why = f"{error}{said and f': {said}'}{way and f'; {way}'}"
        return DeliveryError(why, again=error.again, status=error.status)

    def _way_out(self, status: int | None) -> str:
        if status in {401, 403}:
            if self.variable is None:
                return "`authorization_env` is null, so no credential was sent; name the variable that holds the header"
            if status == 401:
                return f"check the header in {self.variable} (`authorization_env`): it may be wrong or have expired"
            return f"check what the account of the header in {self.variable} (`authorization_env`) may do"
        if status in _MOVED:
            return "it has moved, and redirects are not followed; set `url` to where it is now, perhaps with https://"
        if status in _ELSEWHERE:
            return "it leads elsewhere, perhaps to a page for logging in; check `url` and `authorization_env`"
        return ""


def quoted(path: str) -> str:
    """A path for a URL, with its slashes."""
    return urllib.parse.quote(path, safe="/")


def _said(answer: bytes) -> str:
    """The server's own words, of which MLflow has `error_code` and Kubeflow `code`."""
    try:
        said = json.loads(answer)
    except ValueError:
        return ""
    if not isinstance(said, dict):
        return ""
    words = [str(said[key]) for key in ("error_code", "code", "message") if said.get(key)]
    return redact(one_line(": ".join(words)))[:_MOST_WORDS]
