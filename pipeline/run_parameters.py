"""Settings that a single run overrides by short names, such as `--param epochs=3`, here and on Kubeflow.

Each name stands for a setting of the config. On Kubeflow it is a parameter of the pipeline whose default is the
config's value. Imports neither TFX nor KFP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.common.credentials import redact_trailing_url
from headrace.common.errors import ConfigError, Problem
from headrace.common.names import CommandOption, did_you_mean, join_names


@dataclass(frozen=True)
class ParameterSetting:
    """One name.

    path: the setting in the config; to_yaml: spells a value as YAML has it there; number: whether values are numbers.
    """

    path: str
    to_yaml: Callable[[str], str]
    number: bool = False


def _text(value: str) -> str:
    return value or "null"


def _spans(value: str) -> str:
    first, dots, last = value.partition("..")
    return f"[{first}, {last}]" if dots else _text(value)


def _positive(value: str) -> str:
    return value if int(value) else "null"


RUN_PARAMETERS = {
    "run_date": ParameterSetting("data.run_date", _text),
    "spans": ParameterSetting("data.spans", _spans),
    "window": ParameterSetting("data.window", str),
    "epochs": ParameterSetting("train.epochs", str, number=True),
    "steps_per_epoch": ParameterSetting("train.steps_per_epoch", _positive, number=True),
    "retrain": ParameterSetting("schedule.retrain", str),
    "pipeline_root": ParameterSetting("pipeline.root", str),
}


def parse_parameters(given: Sequence[str], known: Iterable[str]) -> dict[str, str]:
    """Parse `NAME=VALUE` strings of the command line. Raises ConfigError with every mistake."""
    names = list(known)
    found = [(text, _mistake(text, names)) for text in given]
    problems = [Problem(f"--param {redact_trailing_url(text)}", mistake) for text, mistake in found if mistake]
    if problems:
        raise ConfigError(*problems)
    return {name: value for name, _, value in (text.partition("=") for text in given)}


def parameter_overrides(given: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Parse the parameters of a local run from the command line.

    Returns overrides as `--set` takes them, and whether the run obeys `schedule.retrain`: with `retrain=always` it
    trains even if there is no reason to. Raises ConfigError with every mistake.
    """
    values = parse_parameters(given, RUN_PARAMETERS)
    obey_retrain = values.get("retrain") != "always"
    used = {name: value for name, value in values.items() if obey_retrain or name != "retrain"}
    pairs = ((RUN_PARAMETERS[name], value) for name, value in used.items())
    texts = (CommandOption(f"{parameter.path}={parameter.to_yaml(value)}") for parameter, value in pairs)
    return tuple(texts), obey_retrain


def value_overrides(given: Mapping[str, Any]) -> tuple[tuple[tuple[str, Any], ...], bool]:
    """Like `parameter_overrides`, from Python objects, as pairs of setting and value.

    Raises ConfigError for unknown names.
    """
    unknown = [str(name) for name in given if name not in RUN_PARAMETERS]
    problems = [Problem(f"parameter {redact_trailing_url(name)}", _unknown(name, RUN_PARAMETERS)) for name in unknown]
    if problems:
        raise ConfigError(*problems)
    obey_retrain = given.get("retrain") != "always"
    pairs = {RUN_PARAMETERS[name].path: value for name, value in given.items() if obey_retrain or name != "retrain"}
    spans = pairs.get("data.spans")
    if isinstance(spans, str) and ".." in spans:
        pairs["data.spans"] = spans.split("..", 1)
    return tuple(pairs.items()), obey_retrain


def _unknown(name: str, known: Iterable[str]) -> str:
    near = did_you_mean(name, list(known)) or f"; the parameters are: {join_names(list(known), 20)}"
    return f"there is no run parameter {name}{near}"


def _mistake(text: str, known: Sequence[str]) -> str | None:
    name, equals, value = text.partition("=")
    if not equals:
        return "write NAME=VALUE, such as epochs=3"
    if name not in known:
        return _unknown(name, known)
    if RUN_PARAMETERS[name].number and not value.isdecimal():
        return f"{name} must be a number; found {redact_trailing_url(value)!r}"
    return None
