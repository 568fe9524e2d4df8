"""What is rejected before anything is submitted: settings that cannot work on Kubeflow, or that its server would drop.

A server parses the Kubernetes document strictly: if it contains a single field that the server does not know, the
server silently drops the whole document. So a field that is newer than the server is an error here. The fields were
read off `kubernetes_executor_config.proto` and `driver/k8s.go` at the tags 2.14.0 to 2.17.0 of kubeflow/pipelines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.validation import refuse
from headrace.configs.rules import on_kubeflow
from headrace.configs.rules.rule import apply_rules
from headrace.configs.schema.kubeflow import Backend

_KNOWN_IN_ALL = """
activeDeadlineSeconds configMapAsEnv configMapAsVolume emptyDirMounts fieldPathAsEnv genericEphemeralVolume
imagePullPolicy imagePullSecret nodeAffinity nodeSelector podMetadata pvcMount secretAsEnv secretAsVolume
tolerations
"""
KNOWN_IN_ALL = frozenset(_KNOWN_IN_ALL.split())
"""`enabledSharedMemory` and `podAffinity` are missing: the servers read them, and then ignore them."""
NEWER: Mapping[str, str] = {
    "secretAsEnv.optional": "2.15",
    "configMapAsEnv.optional": "2.15",
    "pvcMount.subPath": "2.16",
    "securityContext": "2.16",
}
"""Fields to the release that introduced them."""
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


def check_config(config: PipelineConfig) -> None:
    """Raise ConfigError, with all of them, for settings that Kubeflow needs, or that cannot work there."""
    refuse(apply_rules(on_kubeflow.RULES, dict(config)))


def knows(field: str, backend: Backend) -> bool:
    """Whether a server of that release reads a field, such as `pvcMount.subPath`."""
    top = field.partition(".")[0]
    since = NEWER.get(field) or NEWER.get(top)
    return top in KNOWN_IN_ALL if since is None else _release(since) <= _release(backend)


def check_backend(platform: Mapping[str, Any], backend: Backend) -> None:
    """Raise RunError if a server of that release would drop the Kubernetes document."""
    executors = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {}).get("executors", {})
    unknown: dict[str, list[str]] = {}
    for executor, settings in executors.items():
        for field in _unknown_fields(settings, backend):
            unknown.setdefault(field, []).append(executor.removeprefix("exec-"))
    if unknown:
        reasons = [_explained(field, components, backend) for field, components in sorted(unknown.items())]
        raise RunError(
            "\n".join(reasons) + "\n  A server that does not know one field silently drops all Kubernetes settings of"
            " the pipeline."
            "\n  Remove the setting, or set kubeflow.backend to the release of your server."
        )


def _explained(field: str, components: Sequence[str], backend: Backend) -> str:
    setting = SETTINGS.get(field)
    named = f"the setting `{setting}` ({field} in the server's format)" if setting else field
    more = f" and {len(components) - SHOWN} more" if len(components) > SHOWN else ""
    where = f"kubeflow: {named} of {', '.join(components[:SHOWN])}{more}"
    since = NEWER.get(field)
    if since is None:
        return f"{where} has no effect in Kubeflow Pipelines {backend}"
    return f"{where} requires Kubeflow Pipelines {since}, but kubeflow.backend is {backend}"


def _unknown_fields(executor: Mapping[str, Any], backend: Backend) -> Iterator[str]:
    """The fields that such a server does not know; for an unknown top-level field, none of its inner fields."""
    tops = [name for name in executor if not knows(name, backend)]
    yield from tops
    inner = _inner_fields(executor)
    yield from (name for name in inner if name.partition(".")[0] not in tops and not knows(name, backend))


def _inner_fields(executor: Mapping[str, Any]) -> list[str]:
    """`pvcMount.subPath` and so on, each once."""
    found: dict[str, None] = {}
    for top, value in executor.items():
        for item in value if isinstance(value, list) else [value]:
            found.update(dict.fromkeys(f"{top}.{name}" for name in item) if isinstance(item, Mapping) else {})
    return list(found)


def _release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
