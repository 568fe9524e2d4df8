"""Headrace: one YAML file takes raw data to a trained, evaluated and deployed model.

import headrace

config = headrace.load("taxi.yaml", overrides={"train.epochs": 3})
run = headrace.run(config)
run.blessed, run.metrics["auc"], run.pushed
headrace.predict(config, "new.csv", "scored.parquet")

The names in `__all__` are the public API. Nothing is imported before it is used, and TensorFlow only to compile a
pipeline, to predict, or to read artifacts that need it. Messages go to the logger `headrace` and its children, and are
shown only if the program configures logging.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.common.errors import (
        ConfigError,
        DataError,
        GateError,
        HeadraceError,
        MissingDependencyError,
        RunError,
        ServerError,
        TrainingError,
    )
    from headrace.configs.config import PipelineConfig
    from headrace.pipeline.api import (
        compare,
        compile,  # noqa: A004 - named like the command
        lineage,
        load,
        models,
        predict,
        promote,
        rollback,
        run,
        runs,
        share,
        validate,
    )
    from headrace.pipeline.run import Run

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
    "compare",
    "compile",
    "lineage",
    "load",
    "models",
    "predict",
    "promote",
    "rollback",
    "run",
    "runs",
    "share",
    "validate",
]

_HOMES = {"PipelineConfig": "headrace.configs.config", "Run": "headrace.pipeline.run"}
"""Name to the module that defines it; the other names are errors and functions."""

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "headrace.common.errors" if name.endswith("Error") else "headrace.pipeline.api")
    found = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
