"""What is rejected before anything is submitted: settings that cannot work on Kubeflow, or that its server would drop.

A server parses the Kubernetes document strictly: if it contains a single field that the server does not know, the
server silently drops the whole document. So a field that is newer than the server is an error here. The fields were
read off `kubernetes_executor_config.proto` and `driver/k8s.go` at the tags 2.14.0 to 2.17.0 of kubeflow/pipelines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.common.errors import ConfigError, Problem, RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.rules.beam import ENDPOINTS
from headrace.configs.schema.beam import BeamConfig
from headrace.configs.schema.kubeflow import Backend
from headrace.configs.schema.train import service_config

LOCAL_ENDPOINT = re.compile(
    r"embed|\[(local|auto)\]|local(\[.+\])?|(https?://)?(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?", re.IGNORECASE
)
"""Destinations of Beam jobs, as its runners spell them, that are in the pod itself."""
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
    """Raise ConfigError if a setting is missing that Kubeflow needs, or one cannot work there."""
    settings = config.kubeflow
    if settings.image is None:
        raise ConfigError(
            Problem(
                "kubeflow.image",
                "name the image that the components run in, such as registry.example/headrace:1"
                " (`headrace image` builds it), here or with `--set kubeflow.image=NAME`",
            )
        )
    if config.train.strategy == "multi_worker" and settings.workers is None:
        what = "on Kubeflow it trains in several pods; set their number, such as `kubeflow: {workers: {count: 2}}`"
        raise ConfigError(Problem("train.strategy", what))
    push = config.push_directory
    mounts = [volume.path for volume in settings.settings("Pusher").volumes]
    mounts += [settings.volume.path] if settings.volume else []
    if push is not None and Path(push).is_absolute() and not any(Path(push).is_relative_to(path) for path in mounts):
        what = f"{push} is on no volume that the Pusher's pod mounts, so pushed models would be lost with the pod"
        raise ConfigError(Problem("deploy.push", f"{what}; mount one under kubeflow.components.Pusher.volumes"))
    check_workers(config)


def check_workers(config: PipelineConfig) -> None:
    """Raise ConfigError, with all settings, if workers outside of the pods would have to open files of a pod.

    With `storage: staged` the files of an artifact are copies on the disk of one pod. A local run has no pods, so this
    is not a rule of the config itself.
    """
    if config.kubeflow.storage == "staged" and (unreachable := list(_unreachable(config))):
        raise ConfigError(*unreachable)


def _unreachable(config: PipelineConfig) -> Iterator[Problem]:
    start = "with `kubeflow.storage: staged` only the pod itself has the files that"
    way_out = "use `kubeflow.storage: reference`, with a volume that pods and workers mount at the same path"
    if (to := remote_endpoint(config.beam)) is not None:
        what = f"{start} Beam's workers at {to} would open: {way_out}; or use the runner `auto`, and give the pod CPUs"
        yield Problem("beam.runner", what)
    if (chosen := service_config(config.train.input.service)) is not None:
        what = f"{start} the workers of {chosen.address} would open: {way_out}; or remove the service"
        yield Problem("train.input.service", what)


def remote_endpoint(beam: BeamConfig) -> str | None:
    """Where Beam's jobs run if they run on other machines: the service, or the address of the runner's endpoint."""
    if beam.runner == "dataflow":
        return "Dataflow"
    if not beam.is_remote or str(beam.options.get("environment_type", "")).upper() == "LOOPBACK":
        return None
    named = (beam.options.get(name) for name in ENDPOINTS[beam.runner])
    to = next((str(address) for address in named if address), None)
    return None if to is None or LOCAL_ENDPOINT.fullmatch(to.strip()) else to


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
