"""`--parameter epochs=3`: the settings that a run is given anew."""

from __future__ import annotations

from collections.abc import Sequence

from configs.config import PipelineConfig
from configs.errors import ConfigError, Problem
from configs.suggest import did_you_mean, listed
from pipeline.kubeflow.parameters import PARAMETERS


def parameters(config: PipelineConfig, given: Sequence[str]) -> dict[str, str | int]:
    """By name, of the type that the pipeline takes. Raises ConfigError with every mistake."""
    values: dict[str, str | int] = {}
    problems: list[Problem] = []
    for text in given:
        name, equals, value = text.partition("=")
        problem = _problem(config, name, equals, value)
        if problem:
            problems.append(Problem(f"--parameter {text}", problem))
        elif PARAMETERS[name].type is int:
            values[name] = int(value)
        else:
            values[name] = value
    if problems:
        raise ConfigError(*problems)
    return values


def _problem(config: PipelineConfig, name: str, equals: str, value: str) -> str | None:
    offered = config.kubeflow.parameters
    if not equals:
        return "say NAME=VALUE, such as epochs=3"
    if name not in offered:
        there = did_you_mean(name, offered) or f"; there are: {listed(offered, 20)}" if offered else ""
        return f"kubeflow.parameters has no {name}{there}"
    if PARAMETERS[name].type is int and not value.isdecimal():
        return f"{name} is a number, and this is {value!r}"
    return None
