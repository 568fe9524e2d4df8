"""`--param epochs=3`: the settings that a run on Kubeflow is given anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from pydantic import TypeAdapter, ValidationError

from configs.config import PipelineConfig
from configs.errors import ConfigError, Problem
from configs.kubeflow import RootUri
from configs.schedule import Retrain
from configs.span_rules import is_date
from pipeline.kubeflow.parameters import PARAMETERS, SCHEDULED, offered
from pipeline.run_parameters import split

ROOT = "pipeline_root"
_URI: TypeAdapter[str] = TypeAdapter(RootUri)


@dataclass(frozen=True)
class Values:
    """`parameters`: of the types that the pipeline takes; `root`: the pipeline root, a property of every run."""

    parameters: dict[str, str | int]
    root: str


def values(config: PipelineConfig, given: Sequence[str]) -> Values:
    """Of a run. Raises ConfigError with every mistake in names and numbers, or every one in what else is given."""
    told = split(given, (*offered(config), ROOT))
    problems = [Problem(f"--param {name}", what) for name, what in _mistakes(told)]
    if problems:
        raise ConfigError(*problems)
    root = told.pop(ROOT, config.kubeflow.pipeline_root)
    return Values({name: int(value) if PARAMETERS[name].type is int else value for name, value in told.items()}, root)


def _mistakes(told: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    try:
        _URI.validate_python(told.get(ROOT, "gs://bucket/folder"))
    except ValidationError:
        what = f"{told[ROOT]} is no place that Kubeflow keeps artifacts at, such as gs://bucket/folder"
        yield ROOT, what
    if told.get("retrain", "always") not in get_args(Retrain):
        yield "retrain", f"there are {', '.join(get_args(Retrain))}; found {told['retrain']}"
    day = told.get("run_date", "")
    if day not in ("", SCHEDULED) and not is_date(day):
        yield "run_date", f"{day} is no date; write it as 2026-11-20"
