"""The cluster through the user's own kubeconfig: what the API server may not read, or does not show.

The current context may be that of another cluster, so whatever is concluded from an answer has to be checked against
what the API server says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.common.errors import RunError, ServerError
from headrace.pipeline.kubeflow.cluster_api import TIMEOUT, call
from headrace.pipeline.kubeflow.server.connection import Connection
from headrace.pipeline.kubeflow.server.runs import find_by_id
from headrace.pipeline.kubeflow.server.tasks import ENDED

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

RUN_LABEL = "pipeline/runid"
"""Label of the workflow and of each pod of a run, with the run's id."""
CONTAINER = "main"
"""Argo's name for the container that runs the component."""
WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
RUN_OF_SERVICE = "/api/v1/namespaces/{namespace}/services/ml-pipeline:8888/proxy/apis/v2beta1/runs/{run_id}"
"""A run at the API server in that cluster, through Kubernetes' proxy."""
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Asks Kubernetes for names and labels alone. A workflow may have a megabyte."""
OTHERS = 5
"""Other workflows whose runs are looked up on the server."""


def mark_lost(server: Connection, namespace: str, found: Sequence[Any]) -> None:
    """Set `gone = True` on the unfinished runs whose workflow is gone from the cluster.

    The API shows such runs as running for ever. Does nothing without a kubeconfig, without the right to list workflows,
    or if its cluster cannot be shown to be the server's.
    """
    unfinished = {run.run_id: run for run in found if run.state not in ENDED}
    if not unfinished or not _files():
        return
    try:
        with _api_client() as cluster:
            present = _runs_of_workflows(cluster, namespace, f"{RUN_LABEL} in ({','.join(sorted(unfinished))})")
            missing = [run for run_id, run in unfinished.items() if run_id not in present]
            if missing and (present or _is_of_server(cluster, server, namespace, missing[0])):
                for run in missing:
                    run.gone = True
    except (RunError, ServerError):
        return


def read_pod_log(namespace: str, pod: str, run_id: str) -> str:
    """The log of a component's pod.

    Raises RunError if there is no kubeconfig, if it may not read the log, or if the pod does not exist or belongs to
    another run.
    """
    with _api_client() as cluster:
        from kubernetes.client import CoreV1Api

        core = CoreV1Api(cluster)
        found = core.read_namespaced_pod(pod, namespace, _request_timeout=TIMEOUT)
        if (found.metadata.labels or {}).get(RUN_LABEL) != run_id:
            raise RunError(f"its pod {pod} belongs to another run")
        answer = core.read_namespaced_pod_log(
            pod, namespace, container=CONTAINER, _preload_content=False, _request_timeout=TIMEOUT
        )
        return str(answer.data.decode("utf-8", "replace"))


def _files() -> list[str]:
    """Where kubectl looks."""
    named = os.environ.get("KUBECONFIG") or "~/.kube/config"
    files = (Path(one).expanduser() for one in named.split(os.pathsep) if one)
    return [str(file) for file in files if file.is_file()]


@contextmanager
def _api_client() -> Iterator[ApiClient]:
    """A client for the current context; failures of requests become RunErrors."""
    files = _files()
    if not files:
        raise RunError("there is none")
    import urllib3
    from kubernetes.client import ApiClient, ApiException, Configuration
    from kubernetes.config import ConfigException, load_kube_config

    settings = Configuration()
    settings.retries = False
    try:
        load_kube_config(os.pathsep.join(files), client_configuration=settings)
        with ApiClient(settings) as connection:
            yield connection
    except ApiException as error:
        raise RunError(f"HTTP {error.status}: {_status_message(error.body) or error.reason}") from None
    except (ConfigException, urllib3.exceptions.HTTPError, OSError) as error:
        raise RunError(" ".join(str(error).split())[:300]) from None


def _status_message(body: str | bytes | None) -> str:
    try:
        return str(json.loads(body or b"{}").get("message", ""))
    except ValueError:
        return ""


def _runs_of_workflows(cluster: ApiClient, namespace: str, selector: str, limit: int = 500) -> Collection[str]:
    """The ids of the runs whose workflows are in the namespace, by a selector of labels."""
    query = {"labelSelector": selector, "limit": str(limit)}
    items = _get(cluster, WORKFLOWS.format(namespace=namespace), "items", query)
    return {item["metadata"]["labels"][RUN_LABEL] for item in items}


def _is_of_server(cluster: ApiClient, server: Connection, namespace: str, run: Any) -> bool:
    """Whether the server's runs are in this cluster and namespace.

    The API server in the namespace knows the run; or a workflow there is of a run that the server has in the same
    experiment, for users who may not call services through Kubernetes, and on a multi-user server.
    """
    try:
        if _get(cluster, RUN_OF_SERVICE.format(namespace=namespace, run_id=run.run_id), "run_id") == run.run_id:
            return True
    except RunError:
        pass
    others = (find_by_id(server, other) for other in _runs_of_workflows(cluster, namespace, RUN_LABEL, OTHERS))
    return any(other is not None and other.experiment_id == run.experiment_id for other in others)


def _get(cluster: ApiClient, path: str, key: str, query: dict[str, str] | None = None) -> Any:
    """A value of the JSON object at a path. Raises RunError if it is refused, or something else."""
    from kubernetes.client import ApiException

    try:
        return call(cluster, path, query or {}, headers={"Accept": METADATA} if query else None)[key]
    except (ApiException, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path}: {error}") from None
