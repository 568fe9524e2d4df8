"""Settings that a single run on Kubeflow may change: pipeline parameters whose defaults are the config's values.

Each is an input of a single task, so the cache keys of all other tasks stay the same.
"""

from __future__ import annotations

import datetime as dt
import json
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from headrace.common.errors import RunError
from headrace.configs.config import PipelineConfig
from headrace.configs.schema.data import DATE_PLACEHOLDERS, DataConfig, placeholders
from headrace.configs.schema.schedule import Retrain
from headrace.configs.schema.sources import FileSource
from headrace.configs.schema.trees_model import TreesModel
from headrace.trainer.sections import TrainerSections

Properties = dict[str, Any]
SCHEDULED = "scheduled"
"""The value of `run_date` that stands for the day for which the run was scheduled."""
SCHEDULED_TIME, TIME_ZONE = "scheduled_time", "time_zone"
"""Further inputs of the task that takes `run_date`."""
SCHEDULE_PLACEHOLDER = "{{$.pipeline_job_schedule_time_utc}}"
"""The driver of Kubeflow 2.17 replaces this with the scheduled time (`driver/resolve.go`) if it is the whole value of
an input; for a run that was not scheduled, with the time of its creation."""
REPORT_SCHEDULED_TIME = ("2.17",)
"""Releases that do."""


@dataclass(frozen=True)
class RunParameter:
    """A pipeline parameter.

    component: the component whose task takes it; type: its Python type, as KFP needs it; default: its value in a
    config; put: the component's properties with a given value. `put` raises ValueError for a value that is not allowed.
    """

    component: str
    type: type
    default: Callable[[PipelineConfig], str | int]
    put: Callable[[Properties, Any], Properties]


def with_parameters(component: str, properties: Mapping[str, Any], values: Mapping[str, Any]) -> Properties:
    """A component's properties with the parameters of the run. Raises RunError for a value that is not allowed."""
    changed = dict(properties)
    for name, value in _with_scheduled_day(values).items():
        parameter = PARAMETERS.get(name)
        if parameter is not None and component in (parameter.component, *_ALSO.get(name, ())):
            try:
                changed = parameter.put(changed, value)
            except ValueError as error:
                raise RunError(f"the run's parameter {name} is {value!r}, which is not allowed: {error}") from error
    return changed


def offered(config: PipelineConfig) -> tuple[str, ...]:
    """The names of the parameters of the compiled pipeline."""
    absent = set() if has_dates(config) else {"run_date"}
    if config.only_predicts:
        return tuple(name for name in config.kubeflow.parameters if name in {"run_date"} - absent)
    if config.own_training is not None or isinstance(config.model, TreesModel):
        absent |= {"epochs", "steps_per_epoch"}
    chosen = [name for name in config.kubeflow.parameters if name not in absent]
    return (*chosen, *(["retrain"] if config.retrain != "always" else []))


def takes(config: PipelineConfig, component: str, name: str) -> bool:
    """Whether the task of a component takes a parameter."""
    also = _ALSO.get(name, ()) if config.only_predicts else ()
    return component in (PARAMETERS[name].component, *also)


def has_dates(config: PipelineConfig) -> bool:
    """Whether spans are days: those that are read, or in a pipeline that only predicts, those that are predicted."""
    source = config.predict.source if config.predict is not None and config.only_predicts else config.data.source
    return isinstance(source, FileSource) and placeholders(source.patterns) >= DATE_PLACEHOLDERS


def constants(config: PipelineConfig, component: str) -> dict[str, str]:
    """Constant inputs of a component that define what `run_date: scheduled` means."""
    if (
        "run_date" not in offered(config)
        or not takes(config, component, "run_date")
        or config.kubeflow.backend not in REPORT_SCHEDULED_TIME
    ):
        return {}
    return {SCHEDULED_TIME: SCHEDULE_PLACEHOLDER, TIME_ZONE: config.schedule.time_zone if config.schedule else "UTC"}


def _with_scheduled_day(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with a date instead of `scheduled`. Raises RunError if Kubeflow did not report the scheduled time."""
    if values.get("run_date") != SCHEDULED:
        return dict(values)
    scheduled = str(values.get(SCHEDULED_TIME, ""))
    try:
        moment = dt.datetime.fromisoformat(scheduled.replace("Z", "+00:00"))
    except ValueError:
        raise RunError(
            f"the run's parameter run_date is {SCHEDULED}, but Kubeflow did not report a scheduled time"
            f" ({scheduled!r}).\n"
            "  Kubeflow Pipelines 2.17 reports it; otherwise give the run a date, such as --param run_date=2026-11-20"
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
        raise ValueError(f"use one of {', '.join(allowed)}")
    if value == "drift" != properties["retrain"]:
        raise ValueError("the pipeline has no task that detects drift; compile it with `schedule: {retrain: drift}`")
    return {**properties, "retrain": value}


def _put_data(properties: Properties, name: str, value: Any) -> Properties:
    text = json.dumps({**json.loads(properties["data"]), name: value}, separators=(",", ":"))
    DataConfig.model_validate_json(text)
    return {**properties, "data": text}


def _epochs(config: PipelineConfig) -> int:
    return 0 if config.train.epochs == "auto" else config.train.epochs


def _put_epochs(properties: Properties, value: float) -> Properties:
    return _put_train(properties, "epochs", int(value) or "auto")


def _put_steps(properties: Properties, value: float) -> Properties:
    return _put_train(properties, "steps_per_epoch", int(value) or None)


def _put_train(properties: Properties, name: str, value: int | str | None) -> Properties:
    custom = json.loads(properties["custom_config"])
    sections = json.loads(custom["config"])
    sections["train"][name] = value
    custom["config"] = TrainerSections.from_json(json.dumps(sections)).to_json()
    return {**properties, "custom_config": json.dumps(custom)}


_ALSO: Mapping[str, tuple[str, ...]] = {"run_date": ("PredictSpans",)}
"""The components that take a parameter in a pipeline that only predicts."""
PARAMETERS: dict[str, RunParameter] = {
    "run_date": RunParameter("Spans", str, lambda config: config.data.run_date or "", _put_date),
    "spans": RunParameter("Spans", str, _spans, _put_spans),
    "window": RunParameter("Spans", str, lambda config: str(config.data.window), _put_window),
    "epochs": RunParameter("Trainer", int, _epochs, _put_epochs),
    "steps_per_epoch": RunParameter("Trainer", int, lambda config: config.train.steps_per_epoch or 0, _put_steps),
    "retrain": RunParameter("Spans", str, lambda config: config.retrain, _put_retrain),
}
"""run_date: a date, `scheduled`, or `""` for none; spans: a number, a date, `first..last`, or `""` for the newest;
epochs: 0 is auto; steps_per_epoch: 0 is the whole split."""
