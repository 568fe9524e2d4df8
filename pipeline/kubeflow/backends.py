"""Which settings which release of the Kubeflow Pipelines server knows.

A server parses the Kubernetes document strictly: if it holds one field that the server does not know, the server drops
all of the document, without a word. So a field that is newer than the server is refused here. Read off
`kubernetes_executor_config.proto` and `driver/k8s.go` at the tags 2.14.0 to 2.17.0 of kubeflow/pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.configs.errors import RunError
from headrace.configs.kubeflow import Backend, KubeflowConfig

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
SETTINGS: Mapping[str, str] = {
    "configMapAsEnv": "env",
    "imagePullSecret": "image_pull_secrets",
    "pvcMount": "volumes",
    "pvcMount.subPath": "volumes.sub_path",
    "secretAsEnv": "secrets.env",
    "secretAsEnv.optional": "secrets.optional",
    "securityContext": "security",
}
"""Fields to the settings of a component that they come from."""
SHOWN = 3
"""Components that a message names."""
SEAWEEDFS_SINCE = "2.16"


def knows(field: str, backend: Backend) -> bool:
    """Whether a server of that release reads a field, such as `pvcMount.subPath`."""
    top = field.partition(".")[0]
    since = NEWER.get(field) or NEWER.get(top)
    return top in KNOWN_IN_ALL if since is None else _release(since) <= _release(backend)


def own_store(backend: Backend) -> str:
    """Where `minio://` is unless the installation says otherwise: as the server's `objectstore/config.go` has it."""
    name = "seaweedfs" if _release(backend) >= _release(SEAWEEDFS_SINCE) else "minio-service"
    return f"http://{name}.kubeflow:9000"


def store_options(settings: KubeflowConfig) -> dict[str, str]:
    """What `headrace.pipeline.kubeflow.store` has to know of a config."""
    told = settings.object_store.model_dump(include={"endpoint", "region"}, exclude_none=True)
    return {**told, "minio": own_store(settings.backend)}


def check(platform: Mapping[str, Any], backend: Backend) -> None:
    """Raise RunError, naming setting and release, if a server of that release would drop the Kubernetes document."""
    executors = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    refused: dict[str, list[str]] = {}
    for executor, settings in executors.items():
        for field in _unknown(settings, backend):
            refused.setdefault(field, []).append(executor.removeprefix("exec-"))
    if refused:
        told = [_told(field, components, backend) for field, components in sorted(refused.items())]
        raise RunError(
            "\n".join(told) + "\n  A server that does not know one field drops all Kubernetes settings of the pipeline"
            " without a word."
            "\n  Remove the setting, or set kubeflow.backend to the release of your server."
        )


def _told(field: str, components: Sequence[str], backend: Backend) -> str:
    setting = SETTINGS.get(field)
    named = f"the setting `{setting}` ({field} in what the server reads)" if setting else field
    more = f" and {len(components) - SHOWN} more" if len(components) > SHOWN else ""
    where = f"kubeflow: {named}, of {', '.join(components[:SHOWN])}{more},"
    since = NEWER.get(field)
    if since is None:
        return f"{where} has no effect in Kubeflow Pipelines {backend}"
    return f"{where} came with Kubeflow Pipelines {since}, and kubeflow.backend is {backend}"


def _unknown(executor: Mapping[str, Any], backend: Backend) -> Iterator[str]:
    """The fields that such a server does not know; of one that it does not know at all, nothing within."""
    tops = [name for name in executor if not knows(name, backend)]
    yield from tops
    yield from (name for name in _fields(executor) if name.partition(".")[0] not in tops and not knows(name, backend))


def _fields(executor: Mapping[str, Any]) -> list[str]:
    """What stands within: `pvcMount.subPath` and so on, each once."""
    found: dict[str, None] = {}
    for top, value in executor.items():
        for item in value if isinstance(value, list) else [value]:
            found.update(dict.fromkeys(f"{top}.{name}" for name in item) if isinstance(item, Mapping) else {})
    return list(found)


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
