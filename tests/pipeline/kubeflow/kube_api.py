"""Kubernetes' API as a kubeconfig reaches it: the workflows of an ApiServer, and that server behind the proxy."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_server import ApiServer
from faulty_backend import Answer, Backend

LIST_WORKFLOWS, CALL_SERVICES = "workflows/list", "services/proxy"
PROXY = "/api/v1/namespaces/kubeflow/services/ml-pipeline:8888/proxy"
LABEL = "pipeline/runid"


class KubeApi(Backend):
    """rights: what the user of the kubeconfig may do. Metadata alone is listed, if the client accepts that."""

    def __init__(self, kubeflow: ApiServer, rights: Collection[str] = (LIST_WORKFLOWS, CALL_SERVICES)) -> None:
        super().__init__()
        self.kubeflow, self.rights = kubeflow, rights

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        if path.startswith(PROXY) and CALL_SERVICES in self.rights:
            return self.kubeflow.answer(method, path.removeprefix(PROXY), body)
        url = urllib.parse.urlparse(path)
        if LIST_WORKFLOWS not in self.rights or path.startswith(PROXY):
            return 403, {"message": f"{path} is forbidden"}
        if url.path != "/apis/argoproj.io/v1alpha1/namespaces/kubeflow/workflows":
            return 404, {"message": "the server could not find the requested resource"}
        assert "PartialObjectMetadataList" in self.headers[-1]["Accept"]
        selector = urllib.parse.parse_qs(url.query)["labelSelector"][0]
        chosen = re.fullmatch(rf"{LABEL} in \((.+)\)", selector)
        ids = [one for one in self.kubeflow.workflows if chosen is None or one in chosen[1].split(",")]
        return 200, {"items": [{"metadata": {"name": "w", "labels": {LABEL: one}}} for one in ids]}


def use_kubeconfig(monkeypatch: pytest.MonkeyPatch, folder: Path, url: str) -> None:
    """Write a kubeconfig whose current context is the cluster at the URL, with the token `mine`."""
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "mine"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    (folder / "config").write_text(yaml.safe_dump(kubeconfig))
    monkeypatch.setenv("KUBECONFIG", str(folder / "config"))
