"""The rules of `deploy.registry:`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from headrace.configs.rules.notify import LOOPBACK
from headrace.configs.rules.rule import Rule, Violation
from headrace.configs.schema.deploy import DeployConfig

REGISTRY = ("deploy", "registry")
RESERVED = re.compile(r"latest|[vV][0-9]+")
"""What MLflow takes for no alias: `models:/taxi/latest` and `@v3` have meanings of their own."""


def registry_is_named(deploy: DeployConfig) -> Iterator[Violation]:
    if deploy.registry is not None and not [*deploy.registry.named]:
        yield REGISTRY, "it names no registry; add `mlflow: {url: ...}` or `kubeflow: {url: ...}`, or set it to null"


def token_of_registry_is_encrypted(deploy: DeployConfig) -> Iterator[Violation]:
    for name, server in deploy.registry.named if deploy.registry else ():
        parts = urlsplit(server.url)
        if server.authorization_env is not None and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            what = "the token of `authorization_env` would be sent without encryption; use https"
            yield (*REGISTRY, name, "url"), what


def alias_is_not_reserved(deploy: DeployConfig) -> Iterator[Violation]:
    mlflow = deploy.registry and deploy.registry.mlflow
    if mlflow and RESERVED.fullmatch(mlflow.alias):
        what = f"MLflow reserves the alias {mlflow.alias}; use a name such as champion"
        yield (*REGISTRY, "mlflow", "alias"), what


RULES: tuple[Rule, ...] = (registry_is_named, token_of_registry_is_encrypted, alias_is_not_reserved)
