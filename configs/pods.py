"""Where a config says how components run in pods, for the rules that look at each."""

from __future__ import annotations

from collections.abc import Iterator

from configs.kubeflow import ComponentSettings, KubeflowConfig
from configs.tree import Where


def pods(kubeflow: KubeflowConfig) -> Iterator[tuple[Where, ComponentSettings]]:
    """The defaults and the settings of each component, with their places."""
    yield ("kubeflow", "defaults"), kubeflow.defaults
    for name, settings in kubeflow.components.items():
        yield ("kubeflow", "components", name), settings
