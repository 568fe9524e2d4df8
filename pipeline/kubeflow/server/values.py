"""`--param epochs=3`: the settings that a run on Kubeflow is given anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from headrace.configs.config import PipelineConfig
from headrace.configs.data import DataConfig
from headrace.configs.errors import ConfigError, Problem
from headrace.configs.kubeflow import RootUri
from headrace.configs.span_rules import RULES, is_date
from headrace.pipeline.kubeflow.parameters import PARAMETERS, SCHEDULED, offered
from headrace.pipeline.run_parameters import split
from headrace.trainer.sections import TrainerSections

ROOT = "pipeline_root"
SHAPES = {
    "spans": "a number, a date such as 2026-11-20, or a range of two: 2026-11-01..2026-11-20",
    "window": "a number from 1 on, or all",
    "epochs": "a number from 1 on",
    "steps_per_epoch": "a number",
}
"""What values of a parameter look like."""
_URI: TypeAdapter[str] = TypeAdapter(RootUri)


@dataclass(frozen=True)
class Values:
    """`parameters`: of the types that the pipeline takes; `root`: the pipeline root, a property of every run."""

    parameters: dict[str, str | int]
    root: str


def values(config: PipelineConfig, given: Sequence[str]) -> Values:
    """Of a run. Raises ConfigError with every mistake in names and numbers, or every one in what else is given."""
    told = split(given, (*offered(config), ROOT))
    problems = [Problem(f"--param {name}", what) for name, what in _mistakes(config, told)]
    if problems:
        raise ConfigError(*problems)
    root = told.pop(ROOT, config.kubeflow.pipeline_root)
    return Values({name: int(value) if PARAMETERS[name].type is int else value for name, value in told.items()}, root)


def _mistakes(config: PipelineConfig, told: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    try:
        _URI.validate_python(told.get(ROOT, "gs://bucket/folder"))
    except ValidationError:
        what = f"{told[ROOT]} is no place that Kubeflow keeps artifacts at, such as gs://bucket/folder"
        yield ROOT, what
    for name in (name for name in told if name in PARAMETERS and name != "run_date"):
        for what in _refused(config, name, told[name]):
            yield name, what
    day = told.get("run_date", "")
    if day not in ("", SCHEDULED) and not is_date(day):
        yield "run_date", f"{day} is no date; write it as 2026-11-20"


def _refused(config: PipelineConfig, name: str, value: str) -> list[str]:
    """Why the task that takes the parameter would refuse it, as a config with it would be."""
    properties = {
        "data": config.data.model_dump_json(by_alias=True),
        "retrain": config.retrain,
        "custom_config": json.dumps({"config": TrainerSections.of(config).to_json()}),
    }
    parameter = PARAMETERS[name]
    try:
        put = parameter.put(properties, parameter.type(value))
    except ValidationError:
        return [f"{value or 'nothing'} is not {SHAPES[name]}"]
    except ValueError as error:
        return [f"{value}: {error}"]
    data = DataConfig.model_validate_json(put["data"])
    return [what for rule in RULES for where, what in rule(data) if where[:2] == ("data", name)]
