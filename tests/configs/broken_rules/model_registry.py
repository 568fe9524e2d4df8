"""Configs that break the rules of `deploy.registry:`."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
    "registry_is_named": [
        ("deploy: {registry: {source: 's3://models/{name}'}}", "1: deploy.registry: names no registry"),
    ],
    "token_of_registry_is_encrypted": [
        (
            "deploy: {registry: {mlflow: {url: 'http://mlflow.example', authorization_env: MLFLOW_AUTHORIZATION}}}",
            "1: deploy.registry.mlflow.url: without encryption",
        ),
        (
            "deploy: {registry: {kubeflow: {url: 'http://registry.example', authorization_env: TOKEN}}}",
            "1: deploy.registry.kubeflow.url: without encryption",
        ),
    ],
    "alias_is_not_reserved": [
        (
            "deploy: {registry: {mlflow: {url: 'https://mlflow.example', alias: v3}}}",
            "1: deploy.registry.mlflow.alias: reserves the alias v3",
        ),
        (
            "deploy: {registry: {mlflow: {url: 'https://mlflow.example', alias: latest}}}",
            "1: deploy.registry.mlflow.alias: champion",
        ),
    ],
}
