"""`--param epochs=3`: the settings that a single run is given anew, by the same names here and on Kubeflow.

A name stands for a setting of the config; on Kubeflow it is a parameter of the pipeline, with the config's value as its
default. Imports neither TFX nor KFP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.configs.errors import ConfigError, Problem
from headrace.configs.passwords import hidden_from_url
from headrace.configs.suggest import did_you_mean, listed


@dataclass(frozen=True)
class Setting:
    """What a name stands for. `spelled`: a value as YAML has it in the config; `number`: whether it is one."""

    path: str
    spelled: Callable[[str], str]
    number: bool = False


def _text(value: str) -> str:
    return value or "null"


def _spans(value: str) -> str:
    first, dots, last = value.partition("..")
    return f"[{first}, {last}]" if dots else _text(value)


SETTINGS = {
    "run_date": Setting("data.run_date", _text),
    "spans": Setting("data.spans", _spans),
    "window": Setting("data.window", str),
    "epochs": Setting("train.epochs", str, number=True),
    "steps_per_epoch": Setting("train.steps_per_epoch", lambda value: value if int(value) else "null", number=True),
    "retrain": Setting("schedule.retrain", str),
    "pipeline_root": Setting("pipeline.root", str),
}


def split(given: Sequence[str], offered: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` texts by name. Raises ConfigError with every mistake."""
    names = list(offered)
    found = [(text, _problem(text, names)) for text in given]
    problems = [Problem(f"--param {hidden_from_url(text)}", problem) for text, problem in found if problem]
    if problems:
        raise ConfigError(*problems)
    return {name: value for name, _, value in (text.partition("=") for text in given)}


def overrides(given: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """For a local run: what `--set` would be given, and whether the reason to train is to be heeded."""
    values = split(given, SETTINGS)
    heed = values.get("retrain") != "always"
    told = {name: value for name, value in values.items() if heed or name != "retrain"}
    return tuple(f"{SETTINGS[name].path}={SETTINGS[name].spelled(value)}" for name, value in told.items()), heed


def of_values(given: Mapping[str, Any]) -> tuple[tuple[tuple[str, Any], ...], bool]:
    """The same of Python objects, as pairs of a setting and its value. Raises ConfigError for unknown names."""
    unknown = [str(name) for name in given if name not in SETTINGS]
    problems = [Problem(f"parameter {hidden_from_url(name)}", _unknown(name, SETTINGS)) for name in unknown]
    if problems:
        raise ConfigError(*problems)
    heed = given.get("retrain") != "always"
    pairs = {SETTINGS[name].path: value for name, value in given.items() if heed or name != "retrain"}
    spans = pairs.get("data.spans")
    if isinstance(spans, str) and ".." in spans:
        pairs["data.spans"] = spans.split("..", 1)
    return tuple(pairs.items()), heed


def _unknown(name: str, offered: Iterable[str]) -> str:
    return f"runs take no {name}{did_you_mean(name, list(offered)) or f'; there are: {listed(list(offered), 20)}'}"


def _problem(text: str, offered: Sequence[str]) -> str | None:
    name, equals, value = text.partition("=")
    if not equals:
        return "say NAME=VALUE, such as epochs=3"
    if name not in offered:
        return _unknown(name, offered)
    if SETTINGS[name].number and not value.isdecimal():
        return f"{name} is a number, and this is {hidden_from_url(value)!r}"
    return None
