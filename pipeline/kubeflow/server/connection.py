"""A connection to the API of Kubeflow Pipelines.

    server = connect(config.kubeflow.server)
    run = server.read("find the run", server.runs.run_service_get_run, run_id)

Requests that only read are tried again where the server fails for a moment; requests that change something are sent
once.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kfp_server_api as api

from headrace.configs.errors import ConfigError, Problem, ServerError
from headrace.configs.kubeflow_server import ServerConfig
from headrace.pipeline.kubeflow.server import access
from headrace.pipeline.kubeflow.server.faults import OK, refuse_page, told, unclear

WAITS = (0.5, 2.0)
"""Seconds before each further try of a request that only reads."""


class Connection:
    """The services of the API, and the two ways to ask them."""

    def __init__(self, endpoint: str, client: Any, sleep: Callable[[float], None] = time.sleep) -> None:
        self.endpoint, self._client, self._sleep = endpoint, client, sleep
        self.runs = api.RunServiceApi(client)
        self.experiments = api.ExperimentServiceApi(client)
        self.pipelines = api.PipelineServiceApi(client)
        self.uploads = api.PipelineUploadServiceApi(client)
        self.recurring = api.RecurringRunServiceApi(client)
        self.health = api.HealthzServiceApi(client)

    def read(self, what: str, ask: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Ask, and ask again where the server failed. what: for the message of a ServerError."""
        for wait in WAITS:
            try:
                return self._ask(what, ask, *args, **kwargs)
            except ServerError as error:
                if not unclear(error) or error.status == OK or error.slow:
                    raise
                self._sleep(wait)
        return self._ask(what, ask, *args, **kwargs)

    def change(self, what: str, ask: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Ask once, as the server may do it though no answer comes. what: for the message of a ServerError."""
        return self._ask(what, ask, *args, **kwargs)

    def _ask(self, what: str, ask: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with told(self.endpoint, what), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ask(*args, **kwargs)

    def text(
        self, what: str, path: str, query: Mapping[str, str] | None = None, *, again: bool = True, **parts: str
    ) -> str:
        """What is at a path that gives text, such as a log. parts: of the path; again: ask again where it fails."""

        def ask() -> str:
            answer = self._client.call_api(
                path,
                "GET",
                parts,
                list((query or {}).items()),
                auth_settings=["Bearer"],
                _preload_content=False,
                _return_http_data_only=True,
            )
            found: bytes = answer.data
            return found.decode("utf-8", "replace")

        return str((self.read if again else self._ask)(what, ask))

    def release(self) -> tuple[int, ...]:
        """The server's release, such as (2, 17, 0); empty where it does not say.

        The API server calls it `tag_name`, Kubeflow's web interface in front of one `apiServerTagName`.
        """
        health = json.loads(self.text("ask for the release", "/apis/v2beta1/healthz"))
        found = re.match(r"v?(\d+(?:\.\d+)+)", str(health.get("tag_name") or health.get("apiServerTagName") or ""))
        return tuple(map(int, found[1].split("."))) if found else ()

    def namespace(self, chosen: str) -> str | None:
        """The namespace to name in requests: only a server of many users wants to be told one."""
        health = self.read("ask how it is", self.health.healthz_service_get_healthz)
        return chosen if health.multi_user else None


class _Client(api.ApiClient):
    """Gives every request a time limit and the secret as it is by then, and follows no server to a login page."""

    def __init__(self, configuration: Any, show: Callable[[_Client], None], timeout: int) -> None:
        super().__init__(configuration)
        self._show, self._timeout = show, timeout

    def call_api(self, *args: Any, **kwargs: Any) -> Any:
        self._show(self)
        return super().call_api(*args, **kwargs)

    def request(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["_request_timeout"] = kwargs.get("_request_timeout") or (min(self._timeout, 10), self._timeout)
        try:
            return super().request(*args, **kwargs)
        except api.ApiException as error:
            error.body = error.body or b""  # there is none where TLS failed, and the client decodes it all the same
            raise

    def deserialize(self, response: Any, response_type: Any) -> Any:
        """Refuse what is no JSON, of which the client would make an empty object: a login page, another server.

        A run gets `task_count`, which the client's own models do not know yet; None where the server sends none.
        """
        refuse_page(response.data)
        told = json.loads(response.data)
        found = super().deserialize(response, response_type)
        if isinstance(found, api.V2beta1Run):
            found.task_count = told.get("task_count")
        return found


def connect(settings: ServerConfig, environ: Mapping[str, str] = os.environ) -> Connection:
    """Raises ConfigError if the address, the secret or the file of the authority is missing. Asks nothing yet."""
    if settings.endpoint is None:
        what = "name the address of the Kubeflow Pipelines server, such as https://kubeflow.example/pipeline"
        raise ConfigError(Problem("kubeflow.server.endpoint", what))
    access.secret(settings.auth, environ)
    configuration = api.Configuration(host=settings.endpoint.rstrip("/"))
    configuration.verify_ssl = settings.verify_tls
    configuration.ssl_ca_cert = _authority(settings)
    configuration.retries = False

    def show(client: _Client) -> None:
        """Read anew for each request: a pod's token lives for an hour, and is written anew before it ends."""
        found = access.secret(settings.auth, environ)
        if settings.auth.kind == "cookie":
            client.cookie = found
        elif found is not None:
            configuration.api_key["authorization"] = found
            configuration.api_key_prefix["authorization"] = "Bearer"

    return Connection(configuration.host, _Client(configuration, show, settings.timeout_seconds))


def _authority(settings: ServerConfig) -> str | None:
    if settings.ca_file is None:
        return None
    file = Path(settings.ca_file).expanduser()
    if not file.is_file():
        raise ConfigError(Problem("kubeflow.server.ca_file", f"{file} is not there"))
    return str(file)
