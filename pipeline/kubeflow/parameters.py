"""Settings that a run on Kubeflow may be given anew: pipeline parameters, with the config's values as defaults."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from configs.config import PipelineConfig
from configs.data import DataConfig
from configs.errors import RunError
from trainer.sections import TrainerSections

Properties = dict[str, Any]


@dataclass(frozen=True)
class RunParameter:
    """`component`: whose task takes it; `type`: Python's type for KFP; `default`: from the config; `put`: the
    properties of the component with a value of it.
    """

    component: str
    type: type
    default: Callable[[PipelineConfig], str | int]
    put: Callable[[Properties, Any], Properties]


def with_parameters(component: str, properties: Mapping[str, Any], values: Mapping[str, Any]) -> Properties:
    """A component's properties with what the run says. Raises RunError for a value that cannot be."""
    changed = dict(properties)
    for name, value in values.items():
        parameter = PARAMETERS.get(name)
        if parameter is not None and parameter.component == component:
            try:
                changed = parameter.put(changed, value)
            except ValueError as error:
                raise RunError(f"the run's parameter {name} is {value!r}, which cannot be: {error}") from error
    return changed


def _spans(config: PipelineConfig) -> str:
    spans = config.data.spans
    if spans is None:
        return ""
    return "..".join(map(str, spans)) if isinstance(spans, tuple) else str(spans)


def _put_spans(properties: Properties, value: str) -> Properties:
    ends = [int(end) if end.isdecimal() else end for end in value.split("..")] if value else []
    return _put_data(properties, "spans", None if not ends else ends[0] if len(ends) == 1 else ends)


def _put_window(properties: Properties, value: str) -> Properties:
    return _put_data(properties, "window", int(value) if value.isdecimal() else value)


def _put_data(properties: Properties, name: str, value: Any) -> Properties:
    text = json.dumps({**json.loads(properties["data"]), name: value}, separators=(",", ":"))
    DataConfig.model_validate_json(text)
    return {**properties, "data": text}


def _put_epochs(properties: Properties, value: float) -> Properties:
    return _put_train(properties, "epochs", int(value))


def _put_steps(properties: Properties, value: float) -> Properties:
    return _put_train(properties, "steps_per_epoch", int(value) or None)


def _put_train(properties: Properties, name: str, value: int | None) -> Properties:
    custom = json.loads(properties["custom_config"])
    sections = json.loads(custom["config"])
    sections["train"][name] = value
    custom["config"] = TrainerSections.from_json(json.dumps(sections)).to_json()
    return {**properties, "custom_config": json.dumps(custom)}


PARAMETERS: dict[str, RunParameter] = {
    "spans": RunParameter("Spans", str, _spans, _put_spans),
    "window": RunParameter("Spans", str, lambda config: str(config.data.window), _put_window),
    "epochs": RunParameter("Trainer", int, lambda config: config.train.epochs, _put_epochs),
    "steps_per_epoch": RunParameter("Trainer", int, lambda config: config.train.steps_per_epoch or 0, _put_steps),
}
"""spans: `""` is the newest, else a number, a date, or `first..last`; steps_per_epoch: 0 is the whole split."""
