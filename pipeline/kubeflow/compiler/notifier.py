"""The CronJob that tells the receivers of `notify:` of the runs on Kubeflow that have ended.

    print(notifier_manifest(config, "http://ml-pipeline.kubeflow:8888"), end="")

It runs `headrace notify --kubeflow` under an account of its own, which may only read runs. Its pod gets what it needs
of Secrets by reference. A pod that fails is not tried again, as the next one does what is left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.common.cron import Cron
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.editing import to_yaml
from headrace.configs.rules.on_kubeflow import NOTIFIER
from headrace.configs.schema.kubeflow import KubeflowConfig, Notifier
from headrace.pipeline.kubeflow.compiler import credentials
from headrace.pipeline.kubeflow.compiler.objects import (
    CONFIG,
    MOUNT,
    PodVolume,
    as_yaml,
    headrace_object,
    headrace_pod,
    server_overrides,
)
from headrace.pipeline.kubeflow.store import KEYS

SECONDS = 1_800
"""After which Kubernetes ends a sweep that hangs, such as in a request; the next one goes on where it was."""


def notifier_manifest(config: PipelineConfig, endpoint: str, environ: Mapping[str, str] = os.environ) -> str:
    """The CronJob and a ConfigMap with the config, as YAML documents. Their names are the same for other content.

    Args:
        config: Needs `kubeflow.image`, receivers, and `kubeflow.notify` with a `cron`.
        endpoint: URL of the API server as pods reach it.
        environ: Variables whose values must not appear in the text if they hold credentials.

    Raises:
        RunError: The text would contain a credential, or no CronJob is to be written.
    """
    name = NOTIFIER.format(config.full_name)
    documents = [
        {**headrace_object("v1", "ConfigMap", name, config, 0), "data": {CONFIG: to_yaml(config)}},
        *cron_job(config, name, endpoint),
    ]
    credentials.check(documents, environ, credentials.declared(config))
    return as_yaml(documents)


def cron_job(config: PipelineConfig, config_map: str, endpoint: str) -> Iterator[dict[str, Any]]:
    """The CronJob; nothing if the config has no receivers or no notifier. config_map: where its config is."""
    settings = config.kubeflow.notify
    if not config.notify or settings is None or settings.cron is None:
        return
    schedule = Cron.parse(settings.cron).six_fields().partition(" ")[2]  # Kubernetes does not know 7 for Sunday
    command = ["notify", f"{MOUNT}/{CONFIG}", "--kubeflow", *server_overrides(endpoint)]
    if page := config.kubeflow.server.interface or config.kubeflow.server.endpoint:
        command += ["--set", f"kubeflow.server.interface={page}"]
    volumes = [*_files(settings), *_shared(config.kubeflow)]
    pod = headrace_pod(
        config,
        config_map,
        command,
        settings.service_account,
        env=[*_store_keys(config.kubeflow), *_variables(settings)],
        volumes=volumes,
    )
    pod["spec"]["automountServiceAccountToken"] = False
    job = {"backoffLimit": 0, "activeDeadlineSeconds": SECONDS, "template": pod}
    spec = {
        "schedule": schedule,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 300,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {"spec": job},
    }
    yield {**headrace_object("batch/v1", "CronJob", NOTIFIER.format(config.full_name), config, 1), "spec": spec}


def _variables(settings: Notifier) -> Iterator[dict[str, Any]]:
    for secret in settings.secrets:
        for variable, key in secret.env.items():
            yield _from_secret(variable, secret.name, key, optional=secret.optional)


def _store_keys(kubeflow: KubeflowConfig) -> Iterator[dict[str, Any]]:
    if kubeflow.storage == "staged" and kubeflow.store_secret is not None:
        store = kubeflow.object_store
        for variable, key in zip(KEYS, (store.access_key, store.secret_key), strict=True):
            yield _from_secret(variable, kubeflow.store_secret, key)


def _from_secret(variable: str, secret: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    reference = {"name": secret, "key": key, **({"optional": True} if optional else {})}
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}


def _files(settings: Notifier) -> Iterator[PodVolume]:
    for number, secret in enumerate(settings.secrets):
        if secret.path is not None:
            source = {"secretName": secret.name, **({"optional": True} if secret.optional else {})}
            yield PodVolume(f"secret-{number}", secret.path, {"secret": source})


def _shared(kubeflow: KubeflowConfig) -> Iterator[PodVolume]:
    """The volume with the results of runs, where the record of who was told is too."""
    if kubeflow.storage == "reference" and kubeflow.volume is not None:
        claim = {"persistentVolumeClaim": {"claimName": kubeflow.volume.claim}}
        yield PodVolume("artifacts", kubeflow.volume.path, claim, read_only=False)
