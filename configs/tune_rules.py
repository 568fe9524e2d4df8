"""The rules of `tune:`: its parameters are settings, and their values are such as the settings take."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from headrace.configs import device_rules, model_rules, service_rules, train_rules
from headrace.configs.label import LabelConfig
from headrace.configs.models import ModelConfig
from headrace.configs.rule import Finding, ask
from headrace.configs.suggest import did_you_mean, listed, meant
from headrace.configs.train import TrainConfig
from headrace.configs.tree import Where
from headrace.configs.tune import HIGHER_IS_BETTER, Parameter, TuneConfig, with_values

KEPT_OUT = {
    "model.kind": "the kind of model decides what other settings there are",
    "train.epochs": "how long a trial is trained is `tune.epochs`",
    "train.seed": "a training that was lucky is none that is better",
    "train.strategy": "it changes where a training runs, not what comes of it",
    "train.input": "it changes how fast examples come, not what comes of them; `headrace tune-input` measures it",
    "train.checkpoint": "it changes nothing in what is trained",
    "train.profile": "it changes nothing in what is trained",
    "train.warm_start": "a trial begins with new weights",
}
"""Settings that are not tuned, and why."""
ONE_MACHINE = (
    "multi_worker trains once, and `tune` trains many times; search on one machine (`mirrored`, `one_gpu`, `cpu`), then"
    " put the best values into the config, remove `tune`, and train on all"
)
OF_A_TRIAL = (*model_rules.RULES, *train_rules.RULES, *service_rules.RULES, *device_rules.RULES)
"""The rules that a value of `model` or `train` may break: all that ask for nothing else (a test holds it to that)."""
FEWEST = 3
"""Epochs with which Hyperband has a first round of a third of them."""


def objective_is_reported(tune: TuneConfig | None, label: LabelConfig) -> Iterator[Finding]:
    if tune is None:
        return
    names = HIGHER_IS_BETTER[label.kind]
    if tune.objective not in ("auto", *names):
        what = f'a training for a {label.kind} label reports no "{tune.objective}"'
        yield ("tune", "objective"), f"{what}{meant(tune.objective, ['auto', *names], 'it is one of')}"


def hyperband_has_rounds(tune: TuneConfig | None, train: TrainConfig) -> Iterator[Finding]:
    """With fewer epochs than go to a third of them, it trains one or two trials and chooses nothing early."""
    if tune is None or tune.algorithm != "hyperband":
        return
    epochs = tune.epochs or train.epochs
    if epochs < FEWEST:
        where: Where = ("tune", "epochs") if tune.epochs else ("tune", "algorithm")
        what = f"hyperband has no rounds with {epochs} epoch{'s' * (epochs > 1)}"
        yield where, f"{what}; give at least {FEWEST}, or take random or bayesian"


def parameters_are_settings(
    tune: TuneConfig | None, model: ModelConfig, train: TrainConfig, label: LabelConfig
) -> Iterator[Finding]:
    sections = {"model": model, "train": train}
    for name, parameter in tune.parameters.items() if tune else ():
        where: Where = ("tune", "parameters", name)
        found = _unknown(name, sections) or _malformed(parameter)
        if found:
            yield where, found
        else:
            yield from ((where, what) for what in _refused(name, parameter, sections, label))


def _unknown(name: str, sections: Mapping[str, BaseModel]) -> str | None:
    """What is wrong with a parameter's name."""
    for kept_out, why in KEPT_OUT.items():
        if name == kept_out or name.startswith(f"{kept_out}."):
            return f"{kept_out} is not tuned: {why}"
    known = _settings(sections)
    if name in known or _free(name, sections):
        return None
    closed = [group for group in known if name.startswith(f"{group}.")]
    if closed:
        return f"{closed[-1]} has no settings of its own as the config stands; write them there first"
    return f'there is no setting "{name}" in model or train{did_you_mean(name, known) or _others(name, known)}'


def _others(name: str, known: list[str]) -> str:
    near = [other for other in known if other.partition(".")[0] == name.partition(".")[0]] or known
    return f"; there are {listed(near, 24)}"


def _settings(sections: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The dotted names of all settings that can be tuned, of groups as well as of those in them."""
    names: list[str] = []
    for name, value in sections.items():
        dotted = f"{prefix}{name}"
        if dotted in KEPT_OUT:
            continue
        names += [dotted] if prefix else []
        inner = {field: getattr(value, field) for field in type(value).model_fields} if _is_group(value) else {}
        names += _settings(inner, f"{dotted}.")
    return names


def _is_group(value: object) -> bool:
    return isinstance(value, BaseModel)


def _free(name: str, sections: Mapping[str, BaseModel]) -> bool:
    """Whether it lies in a group that takes any name: the options of one's own model, an optimizer's arguments."""
    head, *inner = name.split(".")
    value: Any = sections.get(head)
    for part in inner[:-1]:
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    extra = _is_group(value) and type(value).model_config.get("extra") == "allow"
    return bool(inner) and (isinstance(value, dict) or extra)


def _malformed(parameter: Parameter) -> str | None:
    """What is wrong with a parameter by itself."""
    bounds = (parameter.min, parameter.max)
    if parameter.choices is not None:
        if any(bound is not None for bound in bounds) or parameter.step or parameter.scale == "log":
            return "`choices` stand alone; remove min, max, scale and step, or the choices"
        return None if len(parameter.choices) > 1 else "one choice leaves nothing to choose; give two or more"
    return _malformed_range(parameter)


def _malformed_range(parameter: Parameter) -> str | None:
    if parameter.min is None or parameter.max is None:
        return "give `min` and `max`, or `choices`"
    if parameter.min >= parameter.max:
        return f"min {parameter.min:g} is not below max {parameter.max:g}"
    if parameter.scale == "log" and parameter.min <= 0:
        return f"`scale: log` needs a min above 0; found {parameter.min:g}"
    if parameter.scale == "log" and parameter.step is not None and parameter.step <= 1:
        return f"with `scale: log`, step is a ratio above 1; found {parameter.step:g}"
    return None


def _refused(name: str, parameter: Parameter, sections: Mapping[str, BaseModel], label: LabelConfig) -> Iterator[str]:
    """What the setting, or a rule, says of the values."""
    values = parameter.choices if parameter.choices is not None else bounds(parameter, is_whole(name, sections))
    told: set[str] = set()
    for value in values:
        for what in _objections(name, value, sections, label):
            if what not in told:
                yield f"{json.dumps(value)} is no value for it: {what}"
            told.add(what)


def is_whole(name: str, sections: Mapping[str, BaseModel]) -> bool:
    """Whether the setting takes whole numbers only: it refuses one and a half, as it is and with the bounds off."""
    whole, broken = 2, 2.5
    return not _invalid(name, whole, sections) and bool(_invalid(name, broken, sections))


def bounds(parameter: Parameter, whole: bool) -> list[JsonValue]:
    """The least and the greatest value, as the setting has them."""
    given = [float(bound) for bound in (parameter.min, parameter.max) if bound is not None]
    return [int(bound) if whole and bound.is_integer() else bound for bound in given]


def _objections(name: str, value: JsonValue, sections: Mapping[str, BaseModel], label: LabelConfig) -> list[str]:
    invalid = _invalid(name, value, sections)
    if invalid:
        return invalid
    before = ask(OF_A_TRIAL, {**sections, "label": label})
    after = ask(OF_A_TRIAL, {**_changed(name, value, sections), "label": label})
    return [what for where, what in after if (where, what) not in before]


def _invalid(name: str, value: JsonValue, sections: Mapping[str, BaseModel]) -> list[str]:
    """Why the section that the setting is in cannot be with the value."""
    try:
        _changed(name, value, sections)
    except ValidationError as error:
        return [_said(error.errors()[0], name.partition(".")[0])]
    except KeyError:
        return ["it has no settings"]
    return []


def _said(found: Any, section: str) -> str:
    """What pydantic's error says, in the words for other settings."""
    from headrace.configs.explain import follow
    from headrace.configs.words import allowed

    if reason := found.get("ctx", {}).get("error"):
        return str(reason)
    where = list(found["loc"])
    while where and isinstance(where[-1], int):  # an item of a list: told is what the list may hold
        where.pop()
    return f"allowed is {allowed(follow((section, *where))[1])}"


def _changed(name: str, value: JsonValue, sections: Mapping[str, BaseModel]) -> dict[str, Any]:
    plain = {key: section.model_dump(mode="json", by_alias=True) for key, section in sections.items()}
    changed = with_values(plain, {name: value})
    kinds: dict[str, TypeAdapter[Any]] = {"model": TypeAdapter(ModelConfig), "train": TypeAdapter(TrainConfig)}
    return {key: kinds[key].validate_json(json.dumps(changed[key])) for key in sections}


def trials_are_on_one_machine(tune: TuneConfig | None, train: TrainConfig) -> Iterator[Finding]:
    if tune is not None and train.strategy == "multi_worker":
        yield ("train", "strategy"), ONE_MACHINE


RULES = (objective_is_reported, hyperband_has_rounds, trials_are_on_one_machine, parameters_are_settings)
