"""Versions in Kubeflow Model Registry: a ModelVersion with a ModelArtifact for each, below one RegisteredModel.

As of its REST API (api/openapi/model-registry.yaml in github.com/kubeflow/model-registry). It has no aliases: what a
version is, is in the custom property `headrace.state`, and a version that is withdrawn or removed is ARCHIVED.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.configs.schema.model_registry import KubeflowRegistry, filled
from headrace.pipeline.notify.transport import DeliveryError
from headrace.pipeline.registration.api import Api
from headrace.pipeline.registration.registry import STATE, Known
from headrace.pipeline.registration.versions import PREFIX, PushedVersion, State

_PAGE = 100
_DESTINATION, _VERSION = f"{PREFIX}destination", f"{PREFIX}version"
_ARCHIVED = frozenset({"withdrawn", "removed"})
FORMAT, FORMAT_VERSION = "tensorflow", "2"
"""Of the model: KServe's name of SavedModels."""


class KubeflowModels:
    """A registered model on a server of Kubeflow Model Registry."""

    def __init__(self, settings: KubeflowRegistry, pipeline: str, destination: str, api: Api) -> None:
        self._api, self._destination, self._version = api, destination, settings.api
        self._root = f"/api/model_registry/{settings.api}"
        self._name = filled(settings.model, pipeline)
        self._listed: dict[str, dict[str, Any]] = {}
        self._model: str | None = None

    @property
    def name(self) -> str:
        """The registered model, for messages."""
        return self._name

    def known(self) -> dict[int, Known]:
        """The versions that were registered completely, with an artifact, for this destination."""
        self._model = self._found()
        self._listed = {str(one["id"]): one for one in self._versions()} if self._model else {}
        found: dict[int, Known] = {}
        for id_, one in self._listed.items():
            properties = _properties(one)
            if (
                properties.get(_DESTINATION) == self._destination
                and properties.get(_VERSION, "").isdecimal()
                and properties.get(STATE)
            ):
                found[int(properties[_VERSION])] = Known(id_, properties[STATE])
        return found

    def add(self, version: PushedVersion) -> Known:
        """Register a version. One that was left without an artifact is completed; the state is noted last."""
        self._model = self._model or self._made()
        begun = next((one for one in self._listed.values() if one["name"] == str(version.number)), None)
        if begun is not None and _properties(begun).get(_DESTINATION) != self._destination:
            raise DeliveryError(
                f"{self._name} has a version {version.number} of another folder; set another `model` for this pipeline"
            )
        made = begun or self._api.send("POST", f"{self._root}/model_versions", self._body(version))
        id_ = str(made["id"])
        self._listed[id_] = made
        artifacts = f"{self._root}/model_versions/{id_}/artifacts"
        if begun is None or not self._api.get(artifacts, pageSize=1).get("items"):
            self._api.send("POST", artifacts, self._artifact(version))
        known = Known(id_, "")
        self.mark(known, version.state)
        return Known(id_, version.state)

    def mark(self, one: Known, state: State) -> None:
        """Note the state of a version."""
        properties = {**self._listed[one.id].get("customProperties", {}), STATE: _text(state)}
        body = {"customProperties": properties, "state": "ARCHIVED" if state in _ARCHIVED else "LIVE"}
        self._listed[one.id] = self._api.send("PATCH", f"{self._root}/model_versions/{one.id}", body)

    def serve(self, one: Known) -> None:
        """Nothing: the state says which version is in service."""

    def _found(self) -> str | None:
        try:
            return str(self._api.get(f"{self._root}/registered_model", name=self._name)["id"])
        except DeliveryError as error:
            if error.status == 404:
                return None
            raise

    def _made(self) -> str:
        body = {
            "name": self._name,
            "description": "Pushed by Headrace.",
            "customProperties": {_DESTINATION: _text(self._destination)},
        }
        try:
            return str(self._api.send("POST", f"{self._root}/registered_models", body)["id"])
        except DeliveryError as error:
            if error.status != 404:
                raise
            what = f"{error}; it may have no API {self._version}: see `deploy.registry.kubeflow.api` and `url`"
            raise DeliveryError(what, status=error.status) from None

    def _versions(self) -> Iterator[dict[str, Any]]:
        page: dict[str, str] = {}
        while True:
            answer = self._api.get(f"{self._root}/registered_models/{self._model}/versions", pageSize=_PAGE, **page)
            yield from answer.get("items", [])
            if not (token := answer.get("nextPageToken")):
                return
            page = {"nextPageToken": token}

    def _body(self, version: PushedVersion) -> dict[str, Any]:
        properties = {f"{PREFIX}{name}": _text(value) for name, value in version.facts.items()}
        measured = {
            f"metric.{name}": {"metadataType": "MetadataDoubleValue", "double_value": value}
            for name, value in sorted(version.metrics.items())
        }
        return {
            "name": str(version.number),
            "registeredModelId": self._model,
            "description": version.description,
            "state": "LIVE",
            "customProperties": {**properties, **measured, _DESTINATION: _text(self._destination)},
        }

    def _artifact(self, version: PushedVersion) -> dict[str, Any]:
        uri = version.source if "://" in version.source else Path(version.source).as_uri()
        return {
            "artifactType": "model-artifact",
            "name": f"{self._name}-{version.number}",
            "uri": uri,
            "state": "LIVE",
            "modelFormatName": FORMAT,
            "modelFormatVersion": FORMAT_VERSION,
            "customProperties": {},
        }


def _text(value: str) -> dict[str, str]:
    return {"metadataType": "MetadataStringValue", "string_value": value}


def _properties(one: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(value["string_value"])
        for name, value in (one.get("customProperties") or {}).items()
        if isinstance(value, dict) and "string_value" in value
    }
