"""`--param epochs=3`: the settings that a run on Kubeflow is given anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from configs.config import PipelineConfig
from configs.errors import ConfigError, Problem
from configs.kubeflow import RootUri
from configs.schedule import Retrain
from pipeline.kubeflow.parameters import PARAMETERS, offered
from pipeline.run_parameters import split

ROOT = "pipeline_root"
_URI: TypeAdapter[str] = TypeAdapter(RootUri)


@dataclass(frozen=True)
class Values:
    """`parameters`: of the types that the pipeline takes; `root`: the pipeline root, a property of every run."""

    parameters: dict[str, str | int]
    root: str


def values(config: PipelineConfig, given: Sequence[str]) -> Values:
    """Of a run. Raises ConfigError with every mistake."""
    told = split(given, (*offered(config), ROOT))
    root = told.pop(ROOT, config.kubeflow.pipeline_root)
    try:
        _URI.validate_python(root)
    except ValidationError:
        what = f"{root} is no place that Kubeflow keeps artifacts at; such as gs://bucket/folder, s3:// or minio://"
        raise ConfigError(Problem(f"--param {ROOT}", what)) from None
    if told.get("retrain", "always") not in get_args(Retrain):
        what = f"there are {', '.join(get_args(Retrain))}; found {told['retrain']}"
        raise ConfigError(Problem("--param retrain", what))
    return Values({name: int(value) if PARAMETERS[name].type is int else value for name, value in told.items()}, root)
