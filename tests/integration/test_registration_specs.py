"""What is sent to Kubeflow Model Registry, against the definitions in the packages of its own client.

The packages are fetched by pip, once, into its cache; without an answer the tests skip, and say so.
"""

from __future__ import annotations

import importlib
import re
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_registry import Registry, model_registry
from test_custom_resources import fetched

from headrace.configs.schema.model_registry import KubeflowRegistry, ModelRegistries
from headrace.pipeline.registration.register import register
from headrace.pipeline.registration.versions import PushedVersion, Shelf, State

CLIENTS = {"v1alpha3": "model-registry==0.3.8", "v1": "model-registry==0.3.18"}
"""By version of the API, a client whose code was generated from its definition."""
BODIES = {
    ("POST", "registered_models"): "RegisteredModelCreate",
    ("POST", "model_versions"): "ModelVersionCreate",
    ("POST", "artifacts"): "ModelArtifact",
    ("PATCH", "model_versions"): "ModelVersionUpdate",
}
SERVICE = "mr_openapi/api/model_registry_service_api.py"


@pytest.fixture(scope="module", params=[*CLIENTS])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The version of the API, and the folder of the client's code, from which the models alone are imported."""
    folder = tmp_path_factory.mktemp("client")
    wheel = ["--no-deps", "-d", str(folder), CLIENTS[request.param]]
    file = fetched([sys.executable, "-m", "pip", "download", "-q", *wheel], folder, "*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    package = types.ModuleType("mr_openapi")  # its own imports an HTTP client, which is not installed
    package.__path__ = [str(folder / "mr_openapi")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mr_openapi", package)
        yield request.param, folder
    for name in [name for name in sys.modules if name.startswith("mr_openapi")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def registry(client: tuple[str, Path]) -> Iterator[Registry]:
    """A registry after a push, and another one that follows a rollback."""

    def shelf(states: dict[int, State]) -> Shelf:
        def describe(one: int) -> PushedVersion:
            facts = {"pipeline": "taxi", "run": "20261122-030003", "rows.train": "91764"}
            at = f"s3://models/taxi/{one}"
            return PushedVersion(one, "runs/1", at, states[one], metrics={"auc": 0.9471}, facts=facts)

        return Shelf("s3://models/taxi", states, describe)

    version: Any = client[0]
    with model_registry(version) as registry:
        settings = ModelRegistries(kubeflow=KubeflowRegistry(url=registry.url, api=version))
        for states in ({1: "in_service"}, {1: "withdrawn", 2: "in_service"}):
            (outcome,) = register(settings, "taxi", shelf(states), {})  # type: ignore[arg-type]
            assert outcome.error is None
        yield registry


def test_every_path_is_one_of_the_api(client: tuple[str, Path], registry: Registry) -> None:
    text = (client[1] / SERVICE).read_text()
    known = [re.sub(r"\{\w+\}", r"[^/]+", path) for path in re.findall(r'resource_path="([^"]+)"', text)]
    for request in registry.requests:
        assert any(re.fullmatch(path, request.path.partition("?")[0]) for path in known), request.path


def test_every_body_is_what_the_api_defines(client: tuple[str, Path], registry: Registry) -> None:
    sent = [(one.method, kind_of(one.path), one.body) for one in registry.requests if one.body is not None]
    assert {(method, kind) for method, kind, _ in sent} == BODIES.keys()
    for method, kind, body in sent:
        assert unknown(BODIES[method, kind], body) == []


def test_a_misspelt_field_would_be_found(client: tuple[str, Path]) -> None:
    assert client
    body = {"name": "1", "registeredModelId": "2", "state": "LIVE", "descripton": "x"}
    assert unknown("ModelVersionCreate", body) == ["descripton"]
    with pytest.raises(ValueError, match="ARCHIVED"):
        unknown("ModelVersionCreate", {"name": "1", "registeredModelId": "2", "state": "ALIVE"})


def unknown(name: str, body: dict[str, Any]) -> list[str]:
    """The fields that a class of the client's does not have, or takes for something else."""
    module = importlib.import_module(f"mr_openapi.models.{re.sub(r'(?<!^)(?=[A-Z])', '_', name).lower()}")
    read = getattr(module, name).from_dict(body).to_dict()  # which adds defaults
    return [key for key, value in body.items() if read.get(key) != value]


def kind_of(path: str) -> str:
    """What a path is about: its last part that is no id."""
    return [part for part in path.partition("?")[0].split("/") if not part.isdecimal()][-1]
