"""The space of a search, as KerasTuner has it, and its values, as the config has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import keras_tuner

from headrace.configs.tune import Parameter
from headrace.configs.tune_rules import bounds, is_whole
from headrace.trainer.sections import TrainerSections
from headrace.trainer.tuning.trials import INTERNAL


def space(parameters: Mapping[str, Parameter], sections: TrainerSections) -> keras_tuner.HyperParameters:
    """Every parameter of `tune:`. KerasTuner takes numbers and texts only, so other choices stand there as JSON."""
    found = keras_tuner.HyperParameters()
    within = {"model": sections.model, "train": sections.train}
    for name, parameter in parameters.items():
        if parameter.choices is not None:
            found.Choice(name, _plain(parameter.choices))
            continue
        whole = is_whole(name, within)
        least, greatest = bounds(parameter, whole)
        step = parameter.step and (int(parameter.step) if whole else parameter.step)
        kind = found.Int if whole else found.Float
        kind(name, least, greatest, step=step, sampling=parameter.scale)
    return found


def _plain(choices: Sequence[Any]) -> list[Any]:
    """Numbers of one type as they are, so that KerasTuner sees their order; anything else as JSON."""
    kinds = {type(choice) for choice in choices}
    return list(choices) if kinds in ({int}, {float}) else [json.dumps(choice) for choice in choices]


def values(found: Mapping[str, Any]) -> dict[str, Any]:
    """KerasTuner's values by dotted name, as the config has them."""
    return {
        name: json.loads(value) if isinstance(value, str) else value
        for name, value in found.items()
        if not name.startswith(INTERNAL)
    }
