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
from pathlib import Path
from typing import Any

from headrace.common import yaml_text
from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.configs.loading.validation import refuse
from headrace.configs.rules.on_kubeflow import DIGITS, name_fits_a_cron_job, name_fits_a_job
from headrace.pipeline.kubeflow.compiler import credentials
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.compiler.notifier import cron_job
from headrace.pipeline.kubeflow.compiler.objects import (
    CONFIG,
    MOUNT,
    as_yaml,
    headrace_object,
    headrace_pod,
    server_overrides,
)
from headrace.pipeline.kubeflow.document import version_name, without_cache

RESOURCES = "pipelines.kubeflow.org/v2beta1"
COMPILED = "pipeline.yaml"
MAX_BYTES = 1_000_000
"""Bytes of a ConfigMap, of which Kubernetes accepts 1 MiB."""


def manifest(
    config: PipelineConfig, endpoint: str, environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> str:
    """The objects as YAML documents.

    Args:
        config: As for `compile_pipeline`.
        endpoint: URL of the API server as pods reach it.
        environ: Variables whose values must not appear in the text if they hold credentials.
        folder: As for `compile_pipeline`.

    Raises:
        ConfigError: A name cannot be that of a Kubernetes object.
        RunError: The text would contain a credential, or the pipeline is too large for a ConfigMap.
    """
    refuse(
        [
            *name_fits_a_job(config.pipeline),
            *name_fits_a_cron_job(config.pipeline, config.notify, config.kubeflow, config.predict),
        ]
    )
    compiled = compile_pipeline(config, environ, folder)
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
        {**headrace_object("v1", "ConfigMap", name, config, 0), "data": files, "immutable": True},
        {**headrace_object("batch/v1", "Job", name, config, 1), "spec": _job(config, name, endpoint)},
        *cron_job(config, name, endpoint),
    ]
    credentials.check(documents, environ, credentials.declared(config))
    return as_yaml(documents)


def _custom_resources(config: PipelineConfig, text: str) -> list[dict[str, Any]]:
    """Pipeline and version, for a server that stores pipelines in Kubernetes. The version has the name that
    `headrace submit` gives it, so neither repeats the work of the other.
    """
    name = config.pipeline.name
    specification, *platform = yaml_text.parse_all(text)
    spec = {"pipelineName": name, "displayName": version_name(name, text), "pipelineSpec": specification}
    if platform and platform[0]:
        spec["platformSpec"] = platform[0]
    return [
        {**headrace_object(RESOURCES, "Pipeline", name, config, -2), "spec": {"displayName": name}},
        {**headrace_object(RESOURCES, "PipelineVersion", version_name(name, text), config, -1), "spec": spec},
    ]


def _job(config: PipelineConfig, name: str, endpoint: str) -> dict[str, Any]:
    verb = ["schedule", "--compiled", f"{MOUNT}/{COMPILED}"] if config.schedule else ["unschedule"]
    command = [*verb[:1], f"{MOUNT}/{CONFIG}", *verb[1:], *server_overrides(endpoint)]
    pod = headrace_pod(config, name, command, config.kubeflow.server.service_account)
    return {"backoffLimit": 5, "template": pod}
