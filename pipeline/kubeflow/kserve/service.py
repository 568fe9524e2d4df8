"""The InferenceService in the cluster: read it, change it if nobody else did meanwhile, and look at its pods.

service = ServiceClient.of_pod(settings, "kubeflow")
seen = service.read()
service.change({"spec": {"predictor": {"model": {"storageUri": uri}}}}, seen)     # False: it changed since; read again
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from urllib.parse import quote

from headrace.common.errors import RunError
from headrace.configs.schema.kserve import KServeConfig
from headrace.pipeline.kubeflow.cluster_api import (
    call,
    connect,
    connect_as_user,
    own_namespace,
    patiently,
    reason_of,
    status_of,
)
from headrace.pipeline.kubeflow.kserve.observed import Observed, PodState

API = "/apis/serving.kserve.io/v1beta1/namespaces/{namespace}/inferenceservices/{name}"
PODS = "/api/v1/namespaces/{namespace}/pods"
SELECTOR = "serving.kserve.io/inferenceservice={},component=predictor"
"""KServe's labels of the pods of an InferenceService that have the model."""
MANAGER = "headrace"
"""Owner of the changed fields, as `kubectl get --show-managed-fields` shows it."""
MERGE_PATCH = "application/merge-patch+json"
CONFLICT = 409
WEBHOOK = "admission webhook"
"""What KServe refuses by its own rules is answered with 403, too."""
MANIFEST = "kubernetes/components/kserve"
WHERE = "deploy.kserve"


@dataclass(frozen=True)
class ServiceClient:
    """One InferenceService. as_account: whether it is asked as a pod's service account, which messages name."""

    name: str
    namespace: str
    as_account: bool = True

    @classmethod
    def of_pod(cls, settings: KServeConfig, namespace: str) -> Self:
        """The service as a run's pod reaches it. namespace: that of the runs, if the pod does not know its own."""
        connect(WHERE)
        return cls(settings.name, settings.namespace or own_namespace() or namespace)

    @classmethod
    def of_user(cls, settings: KServeConfig, namespace: str) -> Self:
        """The service as the user's kubeconfig reaches it. namespace: that of the runs."""
        connect_as_user(WHERE, settings.context)
        return cls(settings.name, settings.namespace or namespace, as_account=False)

    def __str__(self) -> str:
        return f"InferenceService {self.name} in namespace {self.namespace}"

    def read(self) -> Observed:
        """The service as it is now. Raises RunError if there is none, or it may not be read."""
        return Observed.of(self._request("get", "GET", self._path))

    def change(self, patch: Mapping[str, Any], seen: Observed) -> bool:
        """Merge a patch into the service, unless it is no longer as it was seen. Returns whether that was done.

        A patch whose answer was lost is tried again, and is then refused because the first one had its effect.
        """
        metadata = {**patch.get("metadata", {}), "resourceVersion": seen.resource_version}
        body = {**patch, "metadata": metadata}
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
        return self._request("patch", "PATCH", self._path, query, body) is not None

    def pods(self) -> list[PodState]:
        """The pods of the service, of all its revisions."""
        path = PODS.format(namespace=quote(self.namespace))
        found = self._request("list the pods of", "GET", path, {"labelSelector": SELECTOR.format(self.name)})
        return [PodState.of(one) for one in found["items"]]

    @property
    def _path(self) -> str:
        return API.format(namespace=quote(self.namespace), name=quote(self.name))

    def _request(
        self, what: str, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> Any:
        """The answer as JSON; None for a conflict."""
        once = partial(_call, method, path, query or {}, body)
        return patiently(once, lambda status, error: self._explained(what, status, error))

    def _explained(self, what: str, status: int | None, error: Exception) -> str:
        start = f"{WHERE}: could not {what} {self}"
        if status in (401, 403) and WEBHOOK not in reason_of(error):
            who = "this pod's service account lacks" if self.as_account else "the user of the kubeconfig lacks"
            way = f"To grant it, apply the role in {MANIFEST} (docs/kubeflow_cluster.md, `KServe`)."
            return f"{start}: {who} the permission (HTTP {status}).\n  {way}"
        if status == 404:
            way = f"Apply {MANIFEST} once, with this name, or correct deploy.kserve.name and namespace."
            return f"{start}: there is none, or this cluster has no KServe.\n  {way}"
        return f"{start}: {reason_of(error)}"


def _call(method: str, path: str, query: Mapping[str, str], body: Any) -> Any:
    from kubernetes.client import ApiClient, ApiException

    headers = {"Content-Type": MERGE_PATCH} if body is not None else {}
    with ApiClient() as cluster:
        try:
            return call(cluster, path, query, method=method, headers=headers, body=body)
        except ApiException as error:
            if method == "PATCH" and status_of(error) == CONFLICT:
                return None
            raise
        except ValueError as error:
            raise RunError(f"{WHERE}: {path} is not answered by Kubernetes' API") from error
