"""Headrace: one YAML file takes raw data to a trained, judged and pushed model.

import headrace

config = headrace.load("taxi.yaml", overrides={"train.epochs": 3})
run = headrace.run(config)
run.blessed, run.metrics["auc"], run.pushed

The names in `__all__` are what other programs can rely on. Nothing is loaded before it is used, and TensorFlow only
where a pipeline is compiled, or a run's artifacts are read by it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.configs.config import PipelineConfig
    from headrace.configs.errors import (
        ConfigError,
        DataError,
        GateError,
        HeadraceError,
        MissingDependencyError,
        RunError,
        ServerError,
        TrainingError,
    )
    from headrace.pipeline.api import compile, load, run, runs, share, validate  # noqa: A004 - the word of the field
    from headrace.pipeline.finished import Run

__all__ = [
    "ConfigError",
    "DataError",
    "GateError",
    "HeadraceError",
    "MissingDependencyError",
    "PipelineConfig",
    "Run",
    "RunError",
    "ServerError",
    "TrainingError",
    "compile",
    "load",
    "run",
    "runs",
    "share",
    "validate",
]

_HOMES = {
    "PipelineConfig": "headrace.configs.config",
    "Run": "headrace.pipeline.finished",
    **dict.fromkeys(("compile", "load", "run", "runs", "share", "validate"), "headrace.pipeline.api"),
}
"""Where each name is defined; the others are errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES.get(name, "headrace.configs.errors")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
