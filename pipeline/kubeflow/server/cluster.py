"""The cluster behind a Kubeflow server, through the user's own kubeconfig."""

from __future__ import annotations

import json
import os
from pathlib import Path

from headrace.configs.errors import RunError

RUN_LABEL = "pipeline/runid"
"""Kubeflow puts it on each pod of a run, with the run's id."""
CONTAINER = "main"
"""Argo's name for the container that does the work."""
SECONDS = (5, 60)
"""To connect, and for an answer."""


def pod_log(namespace: str, pod: str, run_id: str) -> str:
    """What a pod wrote, by the current context of the kubeconfig.

    Raises RunError where there is no kubeconfig, it may not read the log, or the pod is not there; also if the pod is
    another run's, because the current context may be any cluster.
    """
    files = [str(file) for file in _files() if file.is_file()]
    if not files:
        raise RunError("there is none")
    import urllib3
    from kubernetes.client import ApiClient, ApiException, Configuration, CoreV1Api
    from kubernetes.config import ConfigException, load_kube_config

    settings = Configuration()
    settings.retries = False
    try:
        load_kube_config(os.pathsep.join(files), client_configuration=settings)
        with ApiClient(settings) as connection:
            core = CoreV1Api(connection)
            found = core.read_namespaced_pod(pod, namespace, _request_timeout=SECONDS)
            if (found.metadata.labels or {}).get(RUN_LABEL) != run_id:
                raise RunError(f"its pod {pod} is of another run")
            answer = core.read_namespaced_pod_log(
                pod, namespace, container=CONTAINER, _preload_content=False, _request_timeout=SECONDS
            )
            return str(answer.data.decode("utf-8", "replace"))
    except ApiException as error:
        raise RunError(f"HTTP {error.status}: {_message(error.body) or error.reason}") from None
    except (ConfigException, urllib3.exceptions.HTTPError, OSError) as error:
        raise RunError(" ".join(str(error).split())[:300]) from None


def _files() -> list[Path]:
    """Where kubectl looks for a kubeconfig."""
    named = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return [Path(one).expanduser() for one in named.split(os.pathsep) if one]


def _message(body: str | bytes | None) -> str:
    """The words of a Kubernetes Status."""
    try:
        return str(json.loads(body or b"{}").get("message", ""))
    except ValueError:
        return ""
