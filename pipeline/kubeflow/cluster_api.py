"""Requests to the API of a cluster: how a pod or a user's kubeconfig connects, and what is tried again.

Transient failures (no answer, HTTP 429 and 5xx) are retried: an API server may restart during a task that takes long.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.common.errors import RunError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_Answer = TypeVar("_Answer")
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
TIMEOUT = (5, 60)
"""Seconds to connect, and to wait for an answer."""
PATIENCE_SECONDS = 300.0
"""How long failed requests are repeated."""
WAIT_SECONDS = 2.0
Explain = Callable[[int | None, Exception], str]
"""What a message says of a request that failed for good, by its HTTP status and its error."""


def connect(what: str) -> None:
    """Use the kubeconfig that KUBECONFIG names, or else the pod's service account. what: starts the message if neither
    is there.
    """
    from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

    try:
        named = os.environ.get("KUBECONFIG")
        load_kube_config(named) if named else load_incluster_config()
    except ConfigException as error:
        raise RunError(
            f"{what}: this pod has no access to the API of its cluster ({error}); its service account's"
            " token must be mounted (automountServiceAccountToken)"
        ) from error


def connect_as_user(what: str, context: str | None) -> None:
    """Use a context of the kubeconfig, where kubectl looks for it. context: None for the current one."""
    from kubernetes.config import ConfigException, load_kube_config

    named = os.environ.get("KUBECONFIG") or "~/.kube/config"
    files = os.pathsep.join(str(Path(one).expanduser()) for one in named.split(os.pathsep) if one)
    try:
        load_kube_config(files, context=context)
    except (ConfigException, OSError) as error:
        why = " ".join(str(error).split())[:300]
        raise RunError(f"{what}: the kubeconfig {named} has no such access to the cluster: {why}") from error


def call(
    cluster: ApiClient,
    path: str,
    query: Mapping[str, str],
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: Any = None,
) -> Any:
    """The JSON at a path of the API. Raises ApiException, and ValueError if the answer is not JSON."""
    answer = cluster.call_api(
        path,
        method,
        query_params=list(query.items()),
        header_params={"Accept": "application/json", **(headers or {})},
        body=body,
        auth_settings=["BearerToken"],
        _preload_content=False,
        _return_http_data_only=True,
        _request_timeout=TIMEOUT,
    )
    return json.loads(answer.data)


def own_namespace() -> str:
    """The namespace of this pod; "" outside of a cluster."""
    try:
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def status_of(error: Exception) -> int | None:
    """The HTTP status of a refused request; None if there was no answer."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) and status else None


def patiently(request: Callable[[], _Answer], explain: Explain, patience: float = PATIENCE_SECONDS) -> _Answer:
    """The answer to a request, which is repeated while failures are transient, for `patience` seconds.

    Raises RunError with the explanation if it fails for good.
    """
    import urllib3
    from kubernetes.client import ApiException

    deadline = time.monotonic() + patience
    while True:
        try:
            return request()
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            status = status_of(error)
            transient = status is None or status == 429 or status >= 500
            if not transient or time.monotonic() > deadline:
                raise RunError(explain(status, error)) from error
        time.sleep(WAIT_SECONDS)


def reason_of(error: Exception) -> str:
    """What the server said, or why there was no answer, on one line."""
    reason = getattr(error, "body", None) or getattr(error, "reason", None) or error
    return " ".join(str(reason).split())[:500]
