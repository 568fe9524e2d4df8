"""A connection to the API of Kubeflow Pipelines.

    server = connect(config.kubeflow.server)
    run = server.read("find the run", server.runs.run_service_get_run, run_id)

Requests that only read are repeated if the server fails for a moment. Requests that change something are sent once.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kfp_server_api as api

from headrace.common.errors import ServerError
from headrace.configs.loading.validation import refuse
from headrace.configs.schema.kubeflow import KubeflowConfig, ServerConfig
from headrace.pipeline.kubeflow.server.access import authority_exists, endpoint_is_named, read_secret
from headrace.pipeline.kubeflow.server.errors import OK, as_server_error, is_unclear, reject_page

WAITS = (0.5, 2.0)
"""Seconds before each further try of a request that only reads."""
PAGE_SIZE = 100
EQUALS = 1
"""The number of the operation in the API's filters."""
HEALTH = "/apis/v2beta1/healthz"
UNAVAILABLE = 503


class Connection:
    """The services of the API, and the ways to call them."""

    def __init__(self, endpoint: str, client: Any, sleep: Callable[[float], None] = time.sleep) -> None:
        self.endpoint, self._client, self._sleep = endpoint, client, sleep
        self.runs = api.RunServiceApi(client)
        self.experiments = api.ExperimentServiceApi(client)
        self.pipelines = api.PipelineServiceApi(client)
        self.uploads = api.PipelineUploadServiceApi(client)
        self.recurring = api.RecurringRunServiceApi(client)

    def wait(self, seconds: float) -> None:
        """Pause before something is read again."""
        self._sleep(seconds)

    def read(self, what: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method that only reads, again if the server fails. what: completes "cannot …" in a ServerError."""
        for wait in WAITS:
            try:
                return self._call(what, method, *args, **kwargs)
            except ServerError as error:
                if not is_unclear(error) or error.status == OK or error.slow:
                    raise
                self._sleep(wait)
        return self._call(what, method, *args, **kwargs)

    def change(self, what: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method once, because the server may execute it even if no answer comes. what: as for `read`."""
        return self._call(what, method, *args, **kwargs)

    def _call(self, what: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with as_server_error(self.endpoint, what), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return method(*args, **kwargs)

    def text(
        self, what: str, path: str, query: Mapping[str, str] | None = None, *, retry: bool = True, **parts: str
    ) -> str:
        """The text at a path, such as a log. parts: variables of the path; retry: repeat a failed request."""

        def get() -> str:
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

        return str((self.read if retry else self._call)(what, get))

    def release(self) -> tuple[int, ...]:
        """The server's release, such as (2, 17, 0); empty if it does not report one.

        The API server calls it `tag_name`; Kubeflow's web interface in front of one, `apiServerTagName`.
        """
        health = self._health("ask for the release")
        found = re.match(r"v?(\d+(?:\.\d+)+)", str(health.get("tag_name") or health.get("apiServerTagName") or ""))
        return tuple(map(int, found[1].split("."))) if found else ()

    def namespace(self, chosen: str) -> str | None:
        """The namespace to send in requests: None unless the server is a multi-user one, which requires it."""
        return chosen if self._health("check its health").get("multi_user") else None

    def _health(self, what: str) -> Mapping[str, Any]:
        """What the server reports of itself.

        Kubeflow's web interface answers even if the API server behind it does not, and may then omit `multi_user`. A
        pipeline that is created without a namespace on a multi-user server would be everybody's.
        """

        def get() -> Mapping[str, Any]:
            text = self.text(what, HEALTH, retry=False)
            reject_page(text)
            health = json.loads(text)
            if not isinstance(health, dict):
                raise ValueError(text[:100])
            if health.get("apiServerReady") is False:
                reason = "Kubeflow's interface answers, but the API server behind it does not"
                raise ServerError(f"{self.endpoint}: cannot {what}: {reason}", UNAVAILABLE)
            return health

        found: Mapping[str, Any] = self.read(what, get)
        return found


def list_pages(
    server: Connection, what: str, method: Callable[..., Any], key: str, *args: Any, **kwargs: Any
) -> Iterator[Any]:
    """The items of a list method, with each page read when it is needed. key: of the list in the answer."""
    token = ""
    while True:
        answer = server.read(what, method, *args, **kwargs, page_size=PAGE_SIZE, page_token=token)
        yield from getattr(answer, key) or []
        token = answer.next_page_token or ""
        if not token:
            return


def list_all(
    server: Connection, what: str, method: Callable[..., Any], key: str, *args: Any, **kwargs: Any
) -> list[Any]:
    """All items of a list method, over its pages."""
    return list(list_pages(server, what, method, key, *args, **kwargs))


def name_filter(name: str) -> str:
    """The API's filter for a display name."""
    return field_filter("display_name", name)


def field_filter(key: str, value: str) -> str:
    """The API's filter for the value of a field."""
    return json.dumps({"predicates": [{"operation": EQUALS, "key": key, "stringValue": value}]})


def ended_filter(since: float) -> str:
    """The API's filter for runs that ended at a time (Unix seconds) or later; one that has not ended has the time 0."""
    predicate = {"operation": "GREATER_THAN_EQUALS", "key": "finished_at", "longValue": str(max(1, int(since)))}
    return json.dumps({"predicates": [predicate]})


class _Client(api.ApiClient):
    """Gives every request a time limit and the current secret, and follows no redirect to a login page."""

    def __init__(self, configuration: Any, authorize: Callable[[_Client], None], timeout: int) -> None:
        super().__init__(configuration)
        self._authorize, self._timeout = authorize, timeout

    def call_api(self, *args: Any, **kwargs: Any) -> Any:
        self._authorize(self)
        return super().call_api(*args, **kwargs)

    def request(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["_request_timeout"] = kwargs.get("_request_timeout") or (min(self._timeout, 10), self._timeout)
        try:
            return super().request(*args, **kwargs)
        except api.ApiException as error:
            error.body = error.body or b""  # None if TLS failed, and the client decodes it regardless
            raise

    def deserialize(self, response: Any, response_type: Any) -> Any:
        """Reject what is not JSON, of which the client would make an empty object: a login page, another server.

        A run gets `task_count`, which the client's models do not have yet; None if the server sends none.
        """
        reject_page(response.data)
        answer = json.loads(response.data)
        found = super().deserialize(response, response_type)
        if isinstance(found, api.V2beta1Run):
            found.task_count = answer.get("task_count")
        return found


def connect(settings: ServerConfig, environ: Mapping[str, str] = os.environ) -> Connection:
    """A connection that has sent nothing yet.

    Raises ConfigError if the address, the secret or the file of the certificate authority is missing.
    """
    kubeflow = KubeflowConfig(server=settings)
    refuse([*endpoint_is_named(kubeflow), *authority_exists(kubeflow)])
    read_secret(settings.auth, environ)
    configuration = api.Configuration(host=str(settings.endpoint).rstrip("/"))
    configuration.verify_ssl = settings.verify_tls
    configuration.ssl_ca_cert = settings.ca_file and str(Path(settings.ca_file).expanduser())
    configuration.retries = False

    def authorize(client: _Client) -> None:
        """Runs before each request: a pod's token is valid for an hour, and its file is replaced before that."""
        found = read_secret(settings.auth, environ)
        if settings.auth.kind == "cookie":
            client.cookie = found
        elif found is not None:
            configuration.api_key["authorization"] = found
            configuration.api_key_prefix["authorization"] = "Bearer"

    return Connection(configuration.host, _Client(configuration, authorize, settings.timeout_seconds))
