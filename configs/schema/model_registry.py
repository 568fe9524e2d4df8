"""`deploy.registry:` the model registries that learn of pushed models. One class per registry.

Tokens are only named, by the environment variables that hold them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.notify import Variable
from headrace.configs.schema.section import Name, Section

ServerUrl = Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+(/[^?#@\s]*)?$")]
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.{}-]+$", max_length=200)]
Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=255)]


class RegistryServer(Section):
    """How the server of a model registry is reached, and what the model is called there."""

    url: ServerUrl
    """URL of the server, without the path of its API."""
    authorization_env: Variable | None = None
    """The environment variable with the header `Authorization`, such as `Bearer ...`. null: none is sent."""
    ca_file: Name | None = None
    """PEM file with the certificates of the authority that signed the server's, on Kubeflow in the Pusher's pod. null:
    the public authorities."""
    model: ModelName = "{name}"
    """Name of the registered model. `{name}` stands for the pipeline's name."""


class MlflowRegistry(RegistryServer):
    """MLflow's tracking server and its model registry."""

    alias: Alias = "champion"
    """The alias of the version in service, which each push and rollback moves: `models:/taxi@champion`."""
    experiment: ModelName = "{name}"
    """The experiment that gets a run for each pushed model, with its metrics, hyperparameters and curves. `{name}`
    stands for the pipeline's name."""


class KubeflowRegistry(RegistryServer):
    """Kubeflow Model Registry."""

    api: Literal["v1alpha3", "v1"] = "v1alpha3"
    """Version of the server's REST API, as in the path `/api/model_registry/v1alpha3`."""


class ModelRegistries(Section):
    """The model registries that each pushed version is registered in (see docs/models.md)."""

    mlflow: MlflowRegistry | None = None
    """MLflow's. null: not there."""
    kubeflow: KubeflowRegistry | None = None
    """Kubeflow Model Registry. null: not there."""
    source: Annotated[str, Field(pattern=r"^[a-z][a-z0-9+.-]*://[^?#@\s]+$")] | None = None
    """URI of `deploy.push` for those who read the registry, such as `s3://models/{name}`: the source of a version is
    this and its number. `{name}` stands for the pipeline's name. null: the URI in the object store for runs on
    Kubeflow; for a folder on this machine its `file://` URI in Kubeflow Model Registry, and a copy of the files in
    MLflow's own artifact store, as MLflow refuses paths."""

    @property
    def named(self) -> Iterator[tuple[str, RegistryServer]]:
        """The registries that are configured, by their settings' names."""
        for name, server in (("mlflow", self.mlflow), ("kubeflow", self.kubeflow)):
            if server is not None:
                yield name, server


def filled(text: str, pipeline: str) -> str:
    """A name or URI with the pipeline's name filled in."""
    return text.replace("{name}", pipeline)
