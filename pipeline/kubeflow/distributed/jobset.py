"""The JobSet of a distributed training: one Indexed Job whose pods train together, each reachable by its host name.

    manifest = compiled_jobset(config.kubeflow, config.kubeflow.worker)  # when the pipeline is compiled
    complete(manifest, "headrace-1a2b3c4d5e6f", owner, training)         # in the Trainer's task

JobSet (`jobset.x-k8s.io/v1alpha2`; docs/kubeflow_inside.md explains the choice) creates the headless service,
recreates all pods when one is lost, and removes everything along with its object. Kubernetes sets JOB_COMPLETION_INDEX
in the pods of an Indexed Job.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.pods import SHARED_MEMORY_VOLUME, ComponentSettings, Secret, Security
from headrace.configs.schema.section import to_seconds
from headrace.pipeline.kubeflow.pod.invocation import without_placeholders
from headrace.pipeline.kubeflow.store import KEYS

GROUP, VERSION, PLURAL = "jobset.x-k8s.io", "v1alpha2", "jobsets"
WORKER = "worker"
"""The name of the replicated job and of its container."""
INDEX = "JOB_COMPLETION_INDEX"
"""Environment variable of the pods of an Indexed Job: the number of the worker. Worker 0 is the chief."""
TRAINING = "HEADRACE_TRAINING"
"""Environment variable of a worker: the `training` argument of `complete`, as JSON."""
MANIFEST = "HEADRACE_JOBSET"
"""Environment variable of the Trainer's pod: the text from `manifest_text`. It is not an argument, because arguments
are in Kubeflow's cache key, and the number of pods does not decide what the model is."""
COMMAND = ("python", "-P", "-m", "headrace.pipeline.kubeflow.distributed.worker")
FINAL = 3
"""Exit status of a worker whose error would recur in another try."""
GRACE_SECONDS = 60
"""Between SIGTERM and SIGKILL: the chief saves a checkpoint and copies it to the object store."""
SCRATCH = ("/gcs", "/s3", "/minio", "/.local", "/.cache", "/.config", "/tmp")  # noqa: S108 - folders of the pod
"""Folders on a pod's own disk: those that Kubeflow's launcher mounts into the pods of components, and /tmp."""
TRAINING_LABEL = "headrace/training"
"""The label by which network policies select the workers."""


class Owner(NamedTuple):
    """The pod of the Trainer's task. Kubernetes removes the JobSet along with it."""

    name: str
    uid: str
    service_account: str


def compiled_jobset(settings: KubeflowConfig, one: ComponentSettings) -> dict[str, Any]:
    """The JobSet of a config, without its name. Raises ValueError for a config without `kubeflow.workers`.

    one: the settings of each worker's pod.
    """
    workers = settings.workers
    if workers is None:
        raise ValueError("the config has no kubeflow.workers")
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "JobSet",
        "metadata": {"labels": {"app.kubernetes.io/part-of": "headrace"}},
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "failurePolicy": {
                "maxRestarts": workers.restarts,
                "rules": [{"name": "final", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}],
            },
            "replicatedJobs": [{"name": WORKER, "replicas": 1, "template": {"spec": _job(settings, one)}}],
        },
    }


def manifest_text(settings: KubeflowConfig, one: ComponentSettings) -> str:
    """The JobSet and its namespace as JSON without anything that could be taken for a placeholder."""
    text = json.dumps({"namespace": settings.namespace, "jobset": compiled_jobset(settings, one)}, sort_keys=True)
    return without_placeholders(text)


def complete(manifest: Mapping[str, Any], name: str, owner: Owner, training: Mapping[str, Any]) -> dict[str, Any]:
    """The JobSet with its name, its owner, and the settings of this training that the workers read."""
    made = copy.deepcopy(dict(manifest))
    made["metadata"] |= {
        "name": name,
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid}],
    }
    pod = _pod_of(made)
    pod["serviceAccountName"] = owner.service_account
    pod["containers"][0]["env"].append({"name": TRAINING, "value": json.dumps(training, sort_keys=True)})
    return made


def hosts(manifest: Mapping[str, Any], name: str) -> list[str]:
    """`host:port` of each worker, in the order of their numbers: `<JobSet>-<job>-<job index>-<pod index>.<JobSet>`."""
    count = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"]
    port = _pod_of(manifest)["containers"][0]["ports"][0]["containerPort"]
    return [f"{pod_prefix(name, number)}.{name}:{port}" for number in range(count)]


def pod_prefix(name: str, number: int) -> str:
    """The beginning of the name of a worker's pod, which is also its host name."""
    return f"{name}-{WORKER}-0-{number}"


def _pod_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return found


def _job(settings: KubeflowConfig, one: ComponentSettings) -> dict[str, Any]:
    count = settings.workers.count if settings.workers else 0
    labels = {**one.labels, TRAINING_LABEL: WORKER, "headrace/tfdata": "client", "sidecar.istio.io/inject": "false"}
    final = {"action": "FailJob", "onExitCodes": {"containerName": WORKER, "operator": "In", "values": [FINAL]}}
    return {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [final]},
        "template": {
            "metadata": {"labels": labels, "annotations": {"sidecar.istio.io/inject": "false"}},
            "spec": _pod(settings, one),
        },
    }


def _pod(settings: KubeflowConfig, one: ComponentSettings) -> dict[str, Any]:
    mounted = _volumes(settings, one)
    pulling = settings.image_pull_secrets if one.image_pull_secrets is None else one.image_pull_secrets
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(settings, one, [mount for _, mount in mounted])],
        "volumes": list({volume["name"]: volume for volume, _ in mounted}.values()),
        "nodeSelector": dict(sorted(one.node_selector.items())),
        "tolerations": [_toleration(each) for each in one.tolerations],
        "imagePullSecrets": [{"name": name} for name in pulling],
        "activeDeadlineSeconds": None if one.timeout is None else to_seconds(one.timeout),
    }
    return {name: value for name, value in pod.items() if value not in (None, {}, [])} | {
        "automountServiceAccountToken": False
    }


def _container(settings: KubeflowConfig, one: ComponentSettings, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    port = settings.workers.port if settings.workers else 0
    security = one.security or Security()
    user = {"runAsUser": security.user, "runAsGroup": security.group, "runAsNonRoot": security.non_root or None}
    return {
        "name": WORKER,
        "image": one.image or settings.image,
        "command": list(COMMAND),
        "ports": [{"name": "grpc", "containerPort": port, "protocol": "TCP"}],
        "env": _environment(settings, one),
        "resources": _resources(one),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **{name: value for name, value in user.items() if value is not None},
        },
        "volumeMounts": mounts,
    }


def _environment(settings: KubeflowConfig, one: ComponentSettings) -> list[dict[str, Any]]:
    store = settings.object_store
    secrets = list(one.secrets)
    if settings.storage == "staged" and settings.store_secret is not None:
        keys = dict(zip(KEYS, (store.access_key, store.secret_key), strict=True))
        secrets.append(Secret(name=settings.store_secret, env=keys))
    from_secrets = [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": key, **_optional(secret)}}}
        for secret in secrets
        for variable, key in sorted(secret.env.items())
    ]
    plain = {"HOME": "/tmp", **one.env}  # noqa: S108 - in the pod
    return [*({"name": name, "value": value} for name, value in sorted(plain.items())), *from_secrets]


def _resources(one: ComponentSettings) -> dict[str, Any]:
    accelerators = {one.accelerator.type: str(one.accelerator.count)} if one.accelerator else {}
    asked = {"cpu": _cpu(one.cpu), "memory": one.memory}
    most = {"cpu": _cpu(one.cpu_limit), "memory": one.memory_limit, **accelerators}
    parts = {"requests": asked, "limits": most}
    found = {part: {name: value for name, value in each.items() if value} for part, each in parts.items()}
    return {part: each for part, each in found.items() if each}


def _cpu(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _toleration(one: Any) -> dict[str, Any]:
    fields = {
        "key": one.key,
        "operator": one.operator,
        "value": one.value,
        "effect": one.effect,
        "tolerationSeconds": one.seconds,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _volumes(settings: KubeflowConfig, one: ComponentSettings) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    claims = [(each.claim, each.path, each.sub_path) for each in one.volumes]
    claims += [(settings.volume.claim, settings.volume.path, None)] if settings.volume else []
    for claim, path, inside in claims:
        mount = {"name": claim, "mountPath": path, **({"subPath": inside} if inside else {})}
        found.append(({"name": claim, "persistentVolumeClaim": {"claimName": claim}}, mount))
    for secret in one.secrets:
        if secret.path is not None:
            source: dict[str, Any] = {"secretName": secret.name, **_optional(secret)}
            at = {"name": secret.name, "mountPath": secret.path, "readOnly": True}
            found.append(({"name": secret.name, "secret": source}, at))
    if one.shared_memory is not None:
        memory = {"medium": "Memory", "sizeLimit": one.shared_memory}
        mount = {"name": SHARED_MEMORY_VOLUME, "mountPath": "/dev/shm"}  # noqa: S108 - in the pod
        found.append(({"name": SHARED_MEMORY_VOLUME, "emptyDir": memory}, mount))
    for path in SCRATCH:
        name = f"scratch{path.replace('/', '-').replace('.', '')}"
        found.append(({"name": name, "emptyDir": {}}, {"name": name, "mountPath": path}))
    return found


def _optional(secret: Secret) -> dict[str, bool]:
    return {"optional": True} if secret.optional else {}
