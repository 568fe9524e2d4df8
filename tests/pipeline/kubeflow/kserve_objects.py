"""Where the stand-in of KServe (kserve_cluster.py) keeps the InferenceService: in memory, as Kubernetes' API would."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Protocol

import yaml

Json = dict[str, Any]
NAME, NAMESPACE = "headrace-model", "kubeflow"
MANIFESTS = Path(__file__).parents[3] / "kubernetes" / "components" / "kserve"
FIRST = "s3://root/first"
MODE = "serving.kserve.io/deploymentMode"
MODES = {"Serverless": "Knative", "RawDeployment": "Standard"}
"""What KServe makes of the names that it had before 0.16."""


def manifest(kind: str) -> Json:
    """The object of that kind in `kubernetes/components/kserve`."""
    documents = (one for file in sorted(MANIFESTS.glob("*.yaml")) for one in yaml.safe_load_all(file.read_text()))
    return next(dict(one) for one in documents if one["kind"] == kind)


def first_service(mode: str, uri: str = FIRST) -> Json:
    """The InferenceService of our manifest, as a user applied it and KServe's webhook changed it."""
    service = copy.deepcopy(manifest("InferenceService"))
    service["metadata"]["annotations"] = {MODE: MODES[mode], "modelFormat": "tensorflow", "team": "a user's own"}
    service["spec"]["predictor"]["model"]["storageUri"] = uri
    return service


class Objects(Protocol):
    """Where the InferenceService is kept."""

    def get(self) -> Json | None: ...

    def patch(self, body: Json) -> tuple[int, Json]: ...

    def put_status(self, status: Json) -> None: ...


class InMemory:
    """Keeps the object as Kubernetes' API does: a patch is merged, and refused for an outdated `resourceVersion`."""

    def __init__(self, service: Json | None) -> None:
        self.service = service
        if service is not None:
            service["metadata"] |= {"resourceVersion": "1", "generation": 1, "namespace": NAMESPACE}

    def get(self) -> Json | None:
        return self.service

    def patch(self, body: Json) -> tuple[int, Json]:
        assert self.service is not None
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != self.service["metadata"]["resourceVersion"]:
            return 409, status(409, "the object has been modified")
        before = copy.deepcopy(self.service["spec"])
        self.service = merged(self.service, body)
        self._touch(changed=self.service["spec"] != before)
        return 200, self.service

    def put_status(self, status: Json) -> None:
        assert self.service is not None
        if self.service.get("status") != status:
            self.service["status"] = status
            self._touch(changed=False)

    def _touch(self, *, changed: bool) -> None:
        assert self.service is not None
        metadata = self.service["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        metadata["generation"] += changed


def merged(value: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for name, one in patch.items():
        if one is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), one)
    return found


def status(code: int, message: str) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}
