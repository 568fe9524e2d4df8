"""What a repository holds that Argo CD or Flux watches, so that nobody runs a command against the cluster.

    Path("taxi.yaml").write_text(manifest(config, "http://ml-pipeline.kubeflow:8888"))

The compiled pipeline and the config lie in a ConfigMap, and a Job of the same content's name brings the server to them:
it makes or changes the schedule, or removes it where the config has none. The schedule is not written as Kubeflow's own
ScheduledWorkflow, because the API server only starts runs of schedules that are in its database, and only its API puts
them there (`CreateRun` in `backend/src/apiserver/resource/resource_manager.go`, 2.14 to 2.17).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

import yaml

from headrace.configs.config import PipelineConfig
from headrace.configs.errors import ConfigError, Problem, RunError
from headrace.configs.kubeflow import Security
from headrace.configs.writer import to_yaml
from headrace.pipeline.kubeflow import credentials
from headrace.pipeline.kubeflow.compile import compile_pipeline
from headrace.pipeline.kubeflow.server.versions import content, version_name

RESOURCES = "pipelines.kubeflow.org/v2beta1"
TOKEN = "/var/run/secrets/kubeflow/pipelines"  # noqa: S105 - a path
AUDIENCE = "pipelines.kubeflow.org"
MOUNT = "/headrace-manifest"
CONFIG, COMPILED = "config.yaml", "pipeline.yaml"
LARGEST = 1_000_000
"""Bytes of a ConfigMap; Kubernetes takes 1 MiB."""
DIGITS = 10
LONGEST = 63
"""Characters in the name of a Job, which its pods carry as a label."""
WAVE = "argocd.argoproj.io/sync-wave"
"""Argo CD applies lower numbers first: a version needs its pipeline, the Job needs both. Flux tries again instead."""


def manifest(config: PipelineConfig, endpoint: str, environ: Mapping[str, str] = os.environ) -> str:
    """The objects as YAML documents.

    endpoint: URL of the API server as pods reach it; environ: variables whose values must not stand in the text.

    Raises ConfigError where a name cannot be that of an object, RunError for a credential in the text or a pipeline too
    large for a ConfigMap, and what `compile_pipeline` raises.
    """
    wanted = config.schedule
    text = content(compile_pipeline(config, environ), cache=wanted is None or wanted.cache)
    files = {CONFIG: to_yaml(config), COMPILED: text}
    if sum(len(one.encode()) for one in files.values()) > LARGEST:
        raise RunError("the compiled pipeline is too large for a ConfigMap (1 MiB); let `headrace schedule` upload it")
    digest = hashlib.sha256("\0".join([endpoint, *files.values()]).encode()).hexdigest()[:DIGITS]
    name = f"{config.pipeline.name}-{digest}"
    if len(name) > LONGEST:
        most = LONGEST - DIGITS - 1
        what = f"{config.pipeline.name} is too long for the name of a Job; use at most {most} characters"
        raise ConfigError(Problem("pipeline.name", what))
    documents = [
        *(_custom_resources(config, text) if config.kubeflow.server.pipeline_store == "kubernetes" else []),
        {**_object("v1", "ConfigMap", name, config, 0), "data": files, "immutable": True},
        {**_object("batch/v1", "Job", name, config, 1), "spec": _job(config, name, endpoint)},
    ]
    credentials.check(documents, environ, credentials.declared(config))
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _object(version: str, kind: str, name: str, config: PipelineConfig, wave: int) -> dict[str, Any]:
    labels = {"app.kubernetes.io/part-of": "headrace", "headrace/pipeline": config.pipeline.name}
    metadata = {"name": name, "namespace": config.kubeflow.namespace, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": {**metadata, "annotations": {WAVE: str(wave)}}}


def _custom_resources(config: PipelineConfig, text: str) -> list[dict[str, Any]]:
    """Pipeline and version, as a server takes them whose store of pipelines is Kubernetes. The version is called as
    `headrace submit` calls it, so neither uploads what the other made.
    """
    name = config.pipeline.name
    specification, *platform = yaml.safe_load_all(text)
    spec = {"pipelineName": name, "displayName": version_name(name, text), "pipelineSpec": specification}
    if platform and platform[0]:
        spec["platformSpec"] = platform[0]
    return [
        {**_object(RESOURCES, "Pipeline", name, config, -2), "spec": {"displayName": name}},
        {**_object(RESOURCES, "PipelineVersion", version_name(name, text), config, -1), "spec": spec},
    ]


def _job(config: PipelineConfig, name: str, endpoint: str) -> dict[str, Any]:
    verb = ["schedule", "--compiled", f"{MOUNT}/{COMPILED}"] if config.schedule else ["unschedule"]
    settings = {"endpoint": endpoint, "auth": "{kind: in_cluster}"}
    overrides = [part for key, value in settings.items() for part in ("--set", f"kubeflow.server.{key}={value}")]
    chosen = config.kubeflow.defaults.security or Security()
    user = {"runAsUser": chosen.user, "runAsGroup": chosen.group, "runAsNonRoot": chosen.non_root or None}
    confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "headrace",
        "image": config.kubeflow.image,
        "command": ["python", "-P", "-m", "headrace", *verb[:1], f"{MOUNT}/{CONFIG}", *verb[1:], *overrides],
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
        "securityContext": confined,
        "volumeMounts": [
            {"name": "manifest", "mountPath": MOUNT, "readOnly": True},
            {"name": "token", "mountPath": TOKEN, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - in the pod
        ],
    }
    token = {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 7200, "path": "token"}}
    account = config.kubeflow.server.service_account
    pod = {
        "restartPolicy": "Never",
        **({"serviceAccountName": account} if account else {}),
        **_pull_secrets(config),
        "securityContext": {key: value for key, value in user.items() if value is not None}
        | {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [
            {"name": "manifest", "configMap": {"name": name}},
            {"name": "token", "projected": {"sources": [token]}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    labels = {"headrace/pipeline": config.pipeline.name, "sidecar.istio.io/inject": "false"}
    return {"backoffLimit": 5, "template": {"metadata": {"labels": labels}, "spec": pod}}


def _pull_secrets(config: PipelineConfig) -> dict[str, Any]:
    named = [{"name": name} for name in config.kubeflow.image_pull_secrets]
    return {"imagePullSecrets": named} if named else {}


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they stand."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
