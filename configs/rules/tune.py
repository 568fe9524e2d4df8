"""The rules of `tune:`: its parameters must be settings, with values that the settings accept."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from headrace.common.names import did_you_mean, did_you_mean_or_list, join_names
from headrace.configs.allowed_values import describe_allowed
from headrace.configs.json_schema import schema_at
from headrace.configs.rules import encoder_decoder, multitask, training, trees
from headrace.configs.rules import features as features_rules
from headrace.configs.rules import model as model_rules
from headrace.configs.rules.rule import Rule, Violation, apply_rules, rules_of
from headrace.configs.schema.features import Feature
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.models import ModelConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.train import TrainConfig
from headrace.configs.schema.tune import TuneConfig, TunedParameter, reported_metrics, with_values

NOT_TUNABLE = {
    "model.kind": "the kind of model determines which other settings exist",
    "train.epochs": "the length of a trial is `tune.epochs`",
    "train.seed": "a lucky seed does not make a better model",
    "train.strategy": "it changes where training runs, not its result",
    "train.input": "it changes how fast examples arrive, not the result; use `headrace tune-input`",
    "train.checkpoint": "it does not affect the trained model",
    "train.profile": "it does not affect the trained model",
    "train.warm_start": "a trial starts with new weights",
}
"""Settings that cannot be tuned, and why."""
ONE_MACHINE_ONLY = (
    "multi_worker trains once, but `tune` trains many times; search on one machine (`mirrored`, `one_gpu`, `cpu`,"
    " without `kubeflow.workers`), then put the best values into the config, remove `tune`, and train on all"
)
MIN_HYPERBAND_EPOCHS = 3
"""The number of epochs from which Hyperband has a first round with a third of them."""

_Sections = Mapping[str, BaseModel]


def _concerns_a_trial(rule: Rule) -> bool:
    """Whether a value of `model` or `train` can break it. Besides them it reads the label and the features at most."""
    needs = inspect.signature(rule).parameters.keys()
    return bool(needs & {"model", "train"}) and needs <= {"model", "train", "label", "features"}


_MODULES = features_rules, model_rules, training, trees, encoder_decoder, multitask
TRIAL_RULES = tuple(filter(_concerns_a_trial, rules_of(*_MODULES)))


def objective_is_reported(tune: TuneConfig | None, label: LabelConfig) -> Iterator[Violation]:
    if tune is None:
        return
    names = reported_metrics(label.kinds)
    if tune.objective not in ("auto", *names):
        known = did_you_mean_or_list(tune.objective, ["auto", *names], "available")
        yield ("tune", "objective"), f'training does not report "{tune.objective}" for a {label.kind} label{known}'


def hyperband_has_rounds(tune: TuneConfig | None, train: TrainConfig) -> Iterator[Violation]:
    """With fewer epochs, it would train one or two trials and never stop one early."""
    if tune is None or tune.algorithm != "hyperband":
        return
    epochs = tune.epochs or (MIN_HYPERBAND_EPOCHS if train.epochs == "auto" else train.epochs)  # auto is at least 10
    if epochs < MIN_HYPERBAND_EPOCHS:
        where: KeyPath = ("tune", "epochs") if tune.epochs else ("tune", "algorithm")
        what = f"hyperband has no rounds with {epochs} epoch{'s' * (epochs > 1)}"
        yield where, f"{what}; set at least {MIN_HYPERBAND_EPOCHS}, or use random or bayesian"


def parameters_are_settings(
    tune: TuneConfig | None, model: ModelConfig, train: TrainConfig, label: LabelConfig, features: dict[str, Feature]
) -> Iterator[Violation]:
    sections = {"model": model, "train": train}
    others = {"label": label, "features": features}
    for name, parameter in tune.parameters.items() if tune else ():
        where: KeyPath = ("tune", "parameters", name)
        error = _name_error(name, sections) or _space_error(parameter)
        if error:
            yield where, error
        else:
            yield from ((where, what) for what in _value_errors(name, parameter, sections, others))


def _name_error(name: str, sections: _Sections) -> str | None:
    """What is wrong with the name of a parameter."""
    for excluded, why in NOT_TUNABLE.items():
        if name == excluded or name.startswith(f"{excluded}."):
            return f"{excluded} cannot be tuned: {why}"
    known = _settings(sections)
    if name in known or _takes_any_name(name, sections):
        return None
    closed = [group for group in known if name.startswith(f"{group}.")]
    if closed:
        return f"{closed[-1]} has no settings in this config; add them there first"
    return f'no setting "{name}" in model or train{did_you_mean(name, known) or _list_of_settings(name, known)}'


def _list_of_settings(name: str, known: list[str]) -> str:
    section = [other for other in known if other.partition(".")[0] == name.partition(".")[0]] or known
    return f"; available: {join_names(section, 24)}"


def _settings(sections: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The dotted names of all settings that can be tuned, groups as well as their members."""
    names: list[str] = []
    for name, value in sections.items():
        dotted = f"{prefix}{name}"
        if dotted in NOT_TUNABLE:
            continue
        names += [dotted] if prefix else []
        inner = {field: getattr(value, field) for field in type(value).model_fields} if _is_group(value) else {}
        names += _settings(inner, f"{dotted}.")
    return names


def _is_group(value: object) -> bool:
    return isinstance(value, BaseModel)


def _takes_any_name(name: str, sections: _Sections) -> bool:
    """Whether the parameter is in a group with arbitrary names: options of a custom model, optimizer arguments."""
    head, *inner = name.split(".")
    value: Any = sections.get(head)
    for part in inner[:-1]:
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    extra = _is_group(value) and type(value).model_config.get("extra") == "allow"
    return bool(inner) and (isinstance(value, dict) or extra)


def _space_error(parameter: TunedParameter) -> str | None:
    """What is wrong with the search space in itself."""
    bounds = (parameter.min, parameter.max)
    if parameter.choices is not None:
        if any(bound is not None for bound in bounds) or parameter.step or parameter.scale == "log":
            return "`choices` cannot be combined with min, max, scale and step; remove one or the other"
        return None if len(parameter.choices) > 1 else "one choice leaves nothing to tune; set two or more"
    return _range_error(parameter)


def _range_error(parameter: TunedParameter) -> str | None:
    if parameter.min is None or parameter.max is None:
        return "set `min` and `max`, or `choices`"
    if parameter.min >= parameter.max:
        return f"min {parameter.min:g} is not below max {parameter.max:g}"
    if parameter.scale == "log" and parameter.min <= 0:
        return f"`scale: log` requires a min above 0; found {parameter.min:g}"
    if parameter.scale == "log" and parameter.step is not None and parameter.step <= 1:
        return f"with `scale: log`, step is a ratio above 1; found {parameter.step:g}"
    return None


def _value_errors(
    name: str, parameter: TunedParameter, sections: _Sections, others: Mapping[str, object]
) -> Iterator[str]:
    """What the setting, or a rule, has against the values."""
    whole = takes_integers(name, sections)
    values = parameter.choices if parameter.choices is not None else range_bounds(parameter, whole)
    reported: set[str] = set()
    for value in values:
        for what in _objections(name, value, sections, others):
            if what not in reported:
                yield f"{json.dumps(value)} is not valid: {what}"
            reported.add(what)


def takes_integers(name: str, sections: _Sections) -> bool:
    """Whether the setting takes only integers: it accepts 2 and rejects 2.5."""
    whole, fraction = 2, 2.5
    return not _invalid(name, whole, sections) and bool(_invalid(name, fraction, sections))


def range_bounds(parameter: TunedParameter, whole: bool) -> list[JsonValue]:
    """The smallest and the largest value, as integers if `whole`."""
    given = [float(bound) for bound in (parameter.min, parameter.max) if bound is not None]
    return [int(bound) if whole and bound.is_integer() else bound for bound in given]


def _objections(name: str, value: JsonValue, sections: _Sections, others: Mapping[str, object]) -> list[str]:
    """Why the setting cannot have the value: what pydantic says, else new violations of rules.

    others: the sections that rules read besides those of which settings are tuned.
    """
    invalid = _invalid(name, value, sections)
    if invalid:
        return invalid
    before = apply_rules(TRIAL_RULES, {**sections, **others})
    after = apply_rules(TRIAL_RULES, {**_changed(name, value, sections), **others})
    return [what for where, what in after if (where, what) not in before]


def _invalid(name: str, value: JsonValue, sections: _Sections) -> list[str]:
    """Why the section of the setting is invalid with the value."""
    try:
        _changed(name, value, sections)
    except ValidationError as error:
        return [_message(error.errors()[0], name.partition(".")[0])]
    except KeyError:
        return ["it has no settings"]
    return []


def _message(error: Any, section: str) -> str:
    """One of pydantic's errors, worded like those of other settings."""
    if reason := error.get("ctx", {}).get("error"):
        return str(reason)
    location = list(error["loc"])
    while location and isinstance(location[-1], int):  # an item of a list: describe the whole list
        location.pop()
    return f"allowed: {describe_allowed(schema_at((section, *location)).schema)}"


def _changed(name: str, value: JsonValue, sections: _Sections) -> dict[str, Any]:
    plain = {key: section.model_dump(mode="json", by_alias=True) for key, section in sections.items()}
    changed = with_values(plain, {name: value})
    kinds: dict[str, TypeAdapter[Any]] = {"model": TypeAdapter(ModelConfig), "train": TypeAdapter(TrainConfig)}
    return {key: kinds[key].validate_json(json.dumps(changed[key])) for key in sections}


def trials_run_on_one_machine(tune: TuneConfig | None, train: TrainConfig) -> Iterator[Violation]:
    if tune is not None and train.strategy == "multi_worker":
        yield ("train", "strategy"), ONE_MACHINE_ONLY
