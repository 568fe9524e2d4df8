"""The DAG: one TFX `Pipeline` from a config, the same object for every runner."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from tfx.dsl.components.base.base_node import BaseNode
from tfx.orchestration.pipeline import Pipeline

from headrace.common.environment import quiet
from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.components import DECLARATIONS, Components, Declaration
from headrace.pipeline.extension.extend import extended
from headrace.pipeline.folders import Folders

Make = Callable[[PipelineConfig, Components, Folders], BaseNode | None]
"""A function that builds a component. `Components` has those that are built before it."""


def create_pipeline(config: PipelineConfig, folders: Folders | None = None) -> Pipeline:
    """Build the whole pipeline. Raises DataError if a curated schema cannot be read, and ConfigError if the function of
    `pipeline.extend` fails or returns what cannot run.

    folders: the pipeline's folders; None for those that the config names, on this machine.
    """
    folders = folders or Folders.of(config)
    built = _components(config, folders)
    components = built if config.only_predicts else extended(config.pipeline.extend, built)
    return Pipeline(config.pipeline.name, str(folders.artifacts), components=[*components], enable_cache=True)


def _components(config: PipelineConfig, folders: Folders) -> Components:
    """Our own components, in the order of their declarations, which is that of the data."""
    built = Components()
    chosen = {name: each for name, each in DECLARATIONS.items() if each.predicts or not config.only_predicts}
    for name, declared in chosen.items():
        if (node := _make(name, declared)(config, built, folders)) is not None:
            _wait(node, name, built)
            built = replace(built, **{name: node})
    return built


def _make(name: str, declared: Declaration) -> Make:
    """The function that builds a component. Raises RunError for a line of the registry with a mistake."""
    try:
        with contextlib.nullcontext() if declared.module in sys.modules else quiet():  # TFX warns when it is imported
            found: Make = getattr(import_module(declared.module), name)
    except (ImportError, AttributeError) as error:
        line = f'Components.{name}: "{declared.module}.{name}" cannot be imported'
        raise RunError(f"{line}: {type(error).__name__}: {error}; correct the line in the registry") from error
    return found


def _wait(node: BaseNode, name: str, built: Components) -> None:
    """Let a component run only after the gates that guard it, as far as they exist."""
    for gate, declared in DECLARATIONS.items():
        first: BaseNode | None = getattr(built, gate)
        if name in declared.before and first is not None:
            node.add_upstream_node(first)
