"""Settings that a run on Kubeflow may be given anew: pipeline parameters, with the config's values as defaults.

Each is an input of one task alone, so that the cache keys of others are left as they are.
"""

from __future__ import annotations

import datetime as dt
import json
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from headrace.configs.config import PipelineConfig
from headrace.configs.data import DataConfig
from headrace.configs.errors import RunError
from headrace.configs.schedule import Retrain
from headrace.configs.sources import FileSource
from headrace.configs.span_fields import DATE, placeholders
from headrace.trainer.sections import TrainerSections

Properties = dict[str, Any]
SCHEDULED = "scheduled"
"""The value of `run_date` for the day that the run was scheduled for."""
SCHEDULED_TIME, TIME_ZONE = "scheduled_time", "time_zone"
"""Further inputs of the task that takes `run_date`."""
SCHEDULE_PLACEHOLDER = "{{$.pipeline_job_schedule_time_utc}}"
"""What the driver of Kubeflow 2.17 puts the scheduled time in the place of (`driver/resolve.go`), where it is all of an
input's value; of a run that was not scheduled, the time at which it was made."""
TELL_THE_TIME = ("2.17",)
"""Releases that do."""


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
    for name, value in _dated(values).items():
        parameter = PARAMETERS.get(name)
        if parameter is not None and parameter.component == component:
            try:
                changed = parameter.put(changed, value)
            except ValueError as error:
                raise RunError(f"the run's parameter {name} is {value!r}, which cannot be: {error}") from error
    return changed


def offered(config: PipelineConfig) -> tuple[str, ...]:
    """The names of the parameters of the compiled pipeline."""
    chosen = [name for name in config.kubeflow.parameters if name != "run_date" or has_dates(config)]
    return (*chosen, *(["retrain"] if config.retrain != "always" else []))


def has_dates(config: PipelineConfig) -> bool:
    """Whether spans are days."""
    source = config.data.source
    return isinstance(source, FileSource) and placeholders(source.path) >= DATE


def constants(config: PipelineConfig, component: str) -> dict[str, str]:
    """Further inputs of a component, which say what `run_date: scheduled` means."""
    if component != "Spans" or "run_date" not in offered(config) or config.kubeflow.backend not in TELL_THE_TIME:
        return {}
    return {SCHEDULED_TIME: SCHEDULE_PLACEHOLDER, TIME_ZONE: config.schedule.time_zone if config.schedule else "UTC"}


def _dated(values: Mapping[str, Any]) -> dict[str, Any]:
    """With the day that the run was scheduled for in the place of `scheduled`. Raises RunError if it is not told."""
    if values.get("run_date") != SCHEDULED:
        return dict(values)
    told = str(values.get(SCHEDULED_TIME, ""))
    try:
        moment = dt.datetime.fromisoformat(told.replace("Z", "+00:00"))
    except ValueError:
        raise RunError(
            f"the run's parameter run_date is {SCHEDULED}, and Kubeflow told no scheduled time ({told!r}).\n"
            "  Kubeflow Pipelines 2.17 tells it; else give the run a date, such as --param run_date=2026-11-20"
        ) from None
    zone = zoneinfo.ZoneInfo(str(values.get(TIME_ZONE) or "UTC"))
    day = moment.astimezone(zone).date() if moment.tzinfo else moment.date()
    return {**values, "run_date": day.isoformat()}


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


def _put_date(properties: Properties, value: str) -> Properties:
    return _put_data(properties, "run_date", value[: len("2026-11-20")] or None)


def _put_retrain(properties: Properties, value: str) -> Properties:
    allowed = get_args(Retrain)
    if value not in allowed:
        raise ValueError(f"there are {', '.join(allowed)}")
    if value == "drift" != properties["retrain"]:
        raise ValueError("the pipeline has no task that looks for drift; compile it with `schedule: {retrain: drift}`")
    return {**properties, "retrain": value}


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
    "run_date": RunParameter("Spans", str, lambda config: config.data.run_date or "", _put_date),
    "spans": RunParameter("Spans", str, _spans, _put_spans),
    "window": RunParameter("Spans", str, lambda config: str(config.data.window), _put_window),
    "epochs": RunParameter("Trainer", int, lambda config: config.train.epochs, _put_epochs),
    "steps_per_epoch": RunParameter("Trainer", int, lambda config: config.train.steps_per_epoch or 0, _put_steps),
    "retrain": RunParameter("Spans", str, lambda config: config.retrain, _put_retrain),
}
"""run_date: `""` is none, else a date, or `scheduled`; spans: `""` is the newest, else a number, a date, or
`first..last`; steps_per_epoch: 0 is the whole split."""
