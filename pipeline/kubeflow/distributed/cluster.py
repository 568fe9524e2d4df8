"""JobSets and their pods, through the API of the cluster that this pod is in, with its own service account.

Transient failures are retried for five minutes. If the account lacks a permission, the message names the role that
grants it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from headrace.common.errors import RunError
from headrace.pipeline.kubeflow.cluster_api import (
    PATIENCE_SECONDS,
    TIMEOUT,
    WAIT_SECONDS,
    connect,
    own_namespace,
    patiently,
    reason_of,
    status_of,
)
from headrace.pipeline.kubeflow.distributed.jobset import GROUP, PLURAL, VERSION, Owner

_Answer = TypeVar("_Answer")
SHORT_SECONDS = 15.0
"""The same at the end of the task: after SIGTERM, Kubernetes gives a pod 30 seconds."""
GONE_SECONDS = 600.0
"""How long a deleted JobSet may take to disappear: its pods have a minute to end, and a lost node takes five."""
ROLE = "apply the role in kubernetes/components/multi-worker (docs/kubeflow_cluster.md, `Training in several pods`)"
UNKNOWN = (
    f"this cluster does not have JobSet ({GROUP}/{VERSION}). Kubeflow Trainer includes it (Kubeflow 1.11 and later); or"
    " install it from github.com/kubernetes-sigs/jobset, or train in one pod: remove kubeflow.workers"
)


class JobSetClient:
    """The JobSets of a namespace."""

    def __init__(self, namespace: str, gone_seconds: float = GONE_SECONDS) -> None:
        """namespace: that of the runs, if the pod does not know its own; gone_seconds: how long to wait until a deleted
        JobSet is gone.
        """
        from kubernetes import client

        connect("distributed training")
        self._gone_seconds = gone_seconds
        self.namespace = own_namespace() or namespace
        self._core, self._custom = client.CoreV1Api(), client.CustomObjectsApi()
        self._location = {"group": GROUP, "version": VERSION, "namespace": self.namespace, "plural": PLURAL}

    def owner(self, pod: str) -> Owner:
        """The pod of that name as the owner of what it creates."""
        found = self._request("read this pod", lambda: self._core.read_namespaced_pod(pod, self.namespace, **_OPTIONS))
        return Owner(pod, found.metadata.uid, found.spec.service_account_name or "default")

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Create a JobSet, replacing one with that name that an earlier pod of the task left."""
        name = manifest["metadata"]["name"]
        self.delete(name)

        def once() -> Any:
            try:
                return self._custom.create_namespaced_custom_object(**self._location, body=dict(manifest), **_OPTIONS)
            except Exception as error:
                if status_of(error) == 409:  # created by an earlier request whose answer was lost
                    return self._get(name)
                raise

        self._request("create a JobSet", once)

    def get(self, name: str) -> dict[str, Any] | None:
        """The JobSet with its status, or None if there is none."""
        return self._request("read a JobSet", lambda: self._get(name))

    def delete(self, name: str) -> None:
        """Delete a JobSet with its pods, if there is one, and wait until they are gone.

        Raises RunError if it still exists after `gone_seconds`, as happens if nothing removes its finalizer.
        """
        self.request_deletion(name, PATIENCE_SECONDS)
        deadline = time.monotonic() + self._gone_seconds
        while (found := self.get(name)) is not None:
            if time.monotonic() > deadline:
                raise RunError(self._not_deleted(name, found))
            time.sleep(WAIT_SECONDS / 2)

    def _not_deleted(self, name: str, found: Mapping[str, Any]) -> str:
        finalizers = ", ".join(found.get("metadata", {}).get("finalizers", [])) or "none"
        return (
            f"distributed training: the JobSet {name} of an earlier try was deleted, but still exists after"
            f" {self._gone_seconds:g} seconds (finalizers: {finalizers}).\n"
            f"  See which pods are left: kubectl -n {self.namespace} get pods -l jobset.sigs.k8s.io/jobset-name={name}."
            " If there are none, the controller of a finalizer is not running: start it, or remove the finalizer with"
            f" `kubectl -n {self.namespace} edit jobset {name}`; then run again."
        )

    def request_deletion(self, name: str, patience: float = SHORT_SECONDS) -> None:
        """Delete a JobSet after its pods, without waiting until they are gone."""

        def once() -> None:
            try:
                self._custom.delete_namespaced_custom_object(
                    **self._location, name=name, propagation_policy="Foreground", **_OPTIONS
                )
            except Exception as error:
                if status_of(error) != 404:
                    raise

        self._request("delete a JobSet", once, patience)

    def pods(self, name: str) -> dict[str, str]:
        """The names of the JobSet's pods, with their phases."""
        selector = f"jobset.sigs.k8s.io/jobset-name={name}"
        found = self._request(
            "list pods", lambda: self._core.list_namespaced_pod(self.namespace, label_selector=selector, **_OPTIONS)
        )
        return {pod.metadata.name: pod.status.phase for pod in found.items}

    def log(self, pod: str) -> Iterator[str]:
        """A pod's lines as it writes them, until the pod or the connection ends. Raises ApiException."""
        answer = self._core.read_namespaced_pod_log(
            pod, self.namespace, follow=True, _preload_content=False, _request_timeout=(TIMEOUT[0], None)
        )
        rest = b""
        try:
            for part in answer.stream():
                *lines, rest = (rest + part).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in lines)
        finally:
            answer.close()
        if rest:
            yield rest.decode("utf-8", "replace")

    def _get(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._custom.get_namespaced_custom_object(**self._location, name=name, **_OPTIONS)
        except Exception as error:
            if status_of(error) == 404:
                return None
            raise
        return found

    def _request(self, what: str, request: Callable[[], _Answer], patience: float = PATIENCE_SECONDS) -> _Answer:
        return patiently(request, lambda status, error: _explained(what, self.namespace, status, error), patience)


_OPTIONS = {"_request_timeout": TIMEOUT}


def _explained(what: str, namespace: str, status: int | None, error: Exception) -> str:
    start = f"distributed training: the pod could not {what} in namespace {namespace}"
    if status == 403:
        return f"{start}: its service account lacks the permission (HTTP 403).\n  To grant it, {ROLE}."
    if status == 404 and what == "create a JobSet":
        return f"{start}: {UNKNOWN}."
    return f"{start}: {reason_of(error)}"
