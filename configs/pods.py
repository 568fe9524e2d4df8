"""Where a config says how components run in pods, for the rules that look at each."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from headrace.configs.kubeflow import ComponentSettings, KubeflowConfig
from headrace.configs.tree import Where


def pods(kubeflow: KubeflowConfig) -> Iterator[tuple[Where, ComponentSettings]]:
    """The defaults and the settings of each component, with their places."""
    yield ("kubeflow", "defaults"), kubeflow.defaults
    for name, settings in kubeflow.components.items():
        yield ("kubeflow", "components", name), settings


def mounts(settings: ComponentSettings) -> Iterator[tuple[Where, str, str]]:
    """Where in the settings of a pod a volume is mounted, what it is called in the pod, which is the name of the claim
    or of the Secret, and its folder.
    """
    for number, volume in enumerate(settings.volumes):
        yield ("volumes", number), volume.claim, volume.path
    for number, secret in enumerate(settings.secrets):
        if secret.path is not None:
            yield ("secrets", number), secret.name, secret.path


def folder(path: str) -> str:
    """An absolute path in the one way to write it."""
    return f"/{posixpath.normpath(path).lstrip('/')}"
