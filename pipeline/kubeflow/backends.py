"""Which settings which release of the Kubeflow Pipelines server knows.

A server parses the Kubernetes document strictly: if it holds one field that the server does not know, the server drops
all of the document, without a word. So a field that is newer than the server is refused here. Read off
`kubernetes_executor_config.proto` and `driver/k8s.go` at the tags 2.14.0 to 2.17.0 of kubeflow/pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from configs.errors import RunError
from configs.kubeflow import Backend, KubeflowConfig

KNOWN_IN_ALL = frozenset(
    {
        "activeDeadlineSeconds",
        "configMapAsEnv",
        "configMapAsVolume",
        "emptyDirMounts",
        "fieldPathAsEnv",
        "genericEphemeralVolume",
        "imagePullPolicy",
        "imagePullSecret",
        "nodeAffinity",
        "nodeSelector",
        "podMetadata",
        "pvcMount",
        "secretAsEnv",
        "secretAsVolume",
        "tolerations",
    }
)
"""`enabledSharedMemory` and `podAffinity` are missing: the servers read them, and then do nothing with them."""
NEWER: Mapping[str, str] = {
    "secretAsEnv.optional": "2.15",
    "configMapAsEnv.optional": "2.15",
    "pvcMount.subPath": "2.16",
    "securityContext": "2.16",
}
"""Fields to the release that first knew them."""
SEAWEEDFS_SINCE = "2.16"


def own_store(backend: Backend) -> str:
    """Where `minio://` is unless the installation says otherwise: as the server's `objectstore/config.go` has it."""
    name = "seaweedfs" if _release(backend) >= _release(SEAWEEDFS_SINCE) else "minio-service"
    return f"http://{name}.kubeflow:9000"


def store_options(settings: KubeflowConfig) -> dict[str, str]:
    """What `pipeline.kubeflow.store` has to know of a config."""
    told = settings.object_store.model_dump(include={"endpoint", "region"}, exclude_none=True)
    return {**told, "minio": own_store(settings.backend)}


def check(platform: Mapping[str, Any], backend: Backend) -> None:
    """Raise RunError, naming the release, if a server of that release would drop the Kubernetes document."""
    executors = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    refused = sorted({found for executor in executors.values() for found in _unknown(executor, backend)})
    if refused:
        raise RunError(
            "\n".join(refused)
            + f"\n  With any of these, a server of release {backend} drops all Kubernetes settings without a word."
            "\n  Remove the setting, or set kubeflow.backend to the release of your server."
        )


def _unknown(executor: Mapping[str, Any], backend: Backend) -> Iterator[str]:
    for name in _fields(executor):
        top = name.partition(".")[0]
        since = NEWER.get(name) or NEWER.get(top)
        if since is None and top not in KNOWN_IN_ALL:
            yield f"kubeflow: {name} has no effect in Kubeflow Pipelines {backend}"
        elif since is not None and _release(since) > _release(backend):
            yield f"kubeflow: {name} needs Kubeflow Pipelines {since}, and kubeflow.backend is {backend}"


def _fields(executor: Mapping[str, Any]) -> Iterator[str]:
    """`pvcMount`, `pvcMount.subPath` and so on."""
    for top, value in executor.items():
        yield top
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield from (f"{top}.{name}" for name in item)


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
