"""Kubernetes manifests for a repository that Argo CD or Flux watches, so that nobody runs commands against the cluster.

    Path("taxi.yaml").write_text(manifest(config, "http://ml-pipeline.kubeflow:8888"))

The compiled pipeline and the config are in a ConfigMap. A Job, named by the same content, makes the server follow them:
it creates or changes the schedule, or removes it if the config has none. The schedule is not written as Kubeflow's own
ScheduledWorkflow, because the API server only starts runs of schedules in its database, and only its API puts them
there (`CreateRun` in `backend/src/apiserver/resource/resource_manager.go`, 2.14 to 2.17).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import yaml

from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.configs.loading.validation import refuse
from headrace.configs.rules.on_kubeflow import DIGITS, name_fits_a_job
from headrace.configs.schema.pods import Security
from headrace.pipeline.kubeflow.compiler import credentials
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import version_name, without_cache

RESOURCES = "pipelines.kubeflow.org/v2beta1"
TOKEN = "/var/run/secrets/kubeflow/pipelines"  # noqa: S105 - a path
AUDIENCE = "pipelines.kubeflow.org"
MOUNT = "/headrace-manifest"
CONFIG, COMPILED = "config.yaml", "pipeline.yaml"
MAX_BYTES = 1_000_000
"""Bytes of a ConfigMap, of which Kubernetes accepts 1 MiB."""
WAVE = "argocd.argoproj.io/sync-wave"
"""Argo CD applies lower numbers first: a version needs its pipeline, and the Job needs both. Flux retries instead."""


def manifest(config: PipelineConfig, endpoint: str, environ: Mapping[str, str] = os.environ) -> str:
    """The objects as YAML documents.

    Args:
        config: As for `compile_pipeline`.
        endpoint: URL of the API server as pods reach it.
        environ: Variables whose values must not appear in the text if they hold credentials.

    Raises:
        ConfigError: A name cannot be that of a Kubernetes object.
        RunError: The text would contain a credential, or the pipeline is too large for a ConfigMap.
    """
    refuse(name_fits_a_job(config.pipeline))
    compiled = compile_pipeline(config, environ)
    text = compiled if config.schedule is None or config.schedule.cache else without_cache(compiled)
    files = {CONFIG: to_yaml(config), COMPILED: text}
    if sum(len(one.encode()) for one in files.values()) > MAX_BYTES:
        raise RunError(
            "the compiled pipeline is too large for a ConfigMap (1 MiB); use `headrace schedule`, which uploads it"
        )
    # Neither object may be changed once it exists, so whatever is in them is in their name.
    content = "\0".join([*files.values(), json.dumps(_job(config, "", endpoint), sort_keys=True)])
    name = f"{config.pipeline.name}-{hashlib.sha256(content.encode()).hexdigest()[:DIGITS]}"
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
    """Pipeline and version, for a server that stores pipelines in Kubernetes. The version has the name that
    `headrace submit` gives it, so neither repeats the work of the other.
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
    """Writes texts of more than one line as literal blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
