"""Kubernetes objects that run a command of ours in a pod, with the config in a ConfigMap.

pod = headrace_pod(config, "taxi-0123456789", ["schedule", f"{MOUNT}/{CONFIG}"], "headrace-runner")
as_yaml([{**headrace_object("batch/v1", "Job", "taxi-0123456789", config, 1), "spec": {"template": pod}}])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from headrace.configs.config import PipelineConfig
from headrace.configs.schema.pods import Security

TOKEN = "/var/run/secrets/kubeflow/pipelines"  # noqa: S105 - a path
AUDIENCE = "pipelines.kubeflow.org"
MOUNT = "/headrace-manifest"
"""Where a pod finds the files of the ConfigMap."""
CONFIG = "config.yaml"
WAVE = "argocd.argoproj.io/sync-wave"
"""Argo CD applies lower numbers first: a version needs its pipeline, and the Job needs both. Flux retries instead."""


@dataclass(frozen=True)
class PodVolume:
    """A volume of a pod. source: as in a pod's `volumes`, without the name."""

    name: str
    path: str
    source: dict[str, Any]
    read_only: bool = True


def headrace_object(version: str, kind: str, name: str, config: PipelineConfig, wave: int) -> dict[str, Any]:
    """An object without its content, in the namespace of the runs. wave: of Argo CD."""
    labels = {"app.kubernetes.io/part-of": "headrace", "headrace/pipeline": config.pipeline.name}
    metadata = {"name": name, "namespace": config.kubeflow.namespace, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": {**metadata, "annotations": {WAVE: str(wave)}}}


def server_overrides(endpoint: str) -> list[str]:
    """The options with which a command in a pod reaches the API server at a URL."""
    return [part for one in pod_overrides(endpoint) for part in ("--set", one)]


def pod_overrides(endpoint: str, auth: str = "in_cluster") -> list[str]:
    """What a pod sets of `kubeflow.server`: it reaches the API server at another URL and with another token than people
    do. auth: the kind.
    """
    settings = {"endpoint": endpoint, "auth": f"{{kind: {auth}, file: null, env: null}}"}
    if endpoint.startswith("http://"):
        settings["ca_file"] = "null"
    return [f"kubeflow.server.{name}={value}" for name, value in settings.items()]


def headrace_pod(
    config: PipelineConfig,
    config_map: str,
    command: Sequence[str],
    account: str | None,
    *,
    env: Sequence[dict[str, Any]] = (),
    volumes: Sequence[PodVolume] = (),
) -> dict[str, Any]:
    """The template of a pod that runs `headrace` with a command, not as root, and with few resources.

    config_map: its name; account: the service account, None for the namespace's default; env: as in a container.
    """
    chosen = config.kubeflow.defaults.security or Security()
    user = {"runAsUser": chosen.user, "runAsGroup": chosen.group, "runAsNonRoot": chosen.non_root or None}
    token = {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 7200, "path": "token"}}
    mounted = [
        PodVolume("manifest", MOUNT, {"configMap": {"name": config_map}}),
        PodVolume("token", TOKEN, {"projected": {"sources": [token]}}),
        PodVolume("tmp", "/tmp", {"emptyDir": {}}, read_only=False),  # noqa: S108 - in the pod
        *volumes,
    ]
    container = {
        "name": "headrace",
        "image": config.kubeflow.image,
        "command": ["python", "-P", "-m", "headrace", *command],
        **({"env": list(env)} if env else {}),
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": one.name, "mountPath": one.path, **({"readOnly": True} if one.read_only else {})}
            for one in mounted
        ],
    }
    pod = {
        "restartPolicy": "Never",
        **({"serviceAccountName": account} if account else {}),
        **_pull_secrets(config),
        "securityContext": {key: value for key, value in user.items() if value is not None}
        | {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": one.name, **one.source} for one in mounted],
    }
    labels = {"headrace/pipeline": config.pipeline.name, "sidecar.istio.io/inject": "false"}
    return {"metadata": {"labels": labels}, "spec": pod}


def as_yaml(documents: Sequence[dict[str, Any]]) -> str:
    return yaml.dump_all(documents, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, width=120)


def _pull_secrets(config: PipelineConfig) -> dict[str, Any]:
    named = [{"name": name} for name in config.kubeflow.image_pull_secrets]
    return {"imagePullSecrets": named} if named else {}


class _ManifestDumper(yaml.SafeDumper):
    """Writes texts of more than one line as literal blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_ManifestDumper.add_representer(str, _text)
