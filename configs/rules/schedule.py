"""The rules of `schedule:`."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

from headrace.common.cron import translate
from headrace.common.names import did_you_mean
from headrace.configs.rules.rule import Violation
from headrace.configs.schema.data import DATE_PLACEHOLDERS, DataConfig, placeholders
from headrace.configs.schema.features import Feature
from headrace.configs.schema.kubeflow import KubeflowConfig
from headrace.configs.schema.label import LabelConfig
from headrace.configs.schema.predict import PredictConfig
from headrace.configs.schema.schedule import ScheduleConfig
from headrace.configs.schema.section import KeyPath
from headrace.configs.schema.sources import FileSource


def cron_or_every(schedule: ScheduleConfig | None) -> Iterator[Violation]:
    if schedule is not None and (schedule.cron is None) == (schedule.every is None):
        yield ("schedule",), 'set either `cron: "30 4 * * *"` or `every: 6h`'


def time_zones_are_known(schedule: ScheduleConfig | None, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if schedule is not None and not _known(schedule.time_zone):
        yield ("schedule", "time_zone"), f"unknown time zone {schedule.time_zone}; use a name such as Europe/Berlin"
    if not _known(kubeflow.server.time_zone):
        zone = kubeflow.server.time_zone
        yield ("kubeflow", "server", "time_zone"), f"unknown time zone {zone}; use a name such as Europe/Berlin"


def cron_can_be_scheduled(schedule: ScheduleConfig | None, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if schedule is None or schedule.cron is None:
        return
    zones = schedule.time_zone, kubeflow.server.time_zone
    if all(map(_known, zones)):
        try:
            translate(schedule.cron, *zones)
        except ValueError as error:
            yield ("schedule", "cron"), str(error)


def window_is_a_parameter(schedule: ScheduleConfig | None, kubeflow: KubeflowConfig) -> Iterator[Violation]:
    if schedule is not None and schedule.window is not None and "window" not in kubeflow.parameters:
        what = "add `window` to kubeflow.parameters, so that runs can set it; or set data.window"
        yield ("schedule", "window"), what


def scheduled_day_is_available(
    schedule: ScheduleConfig | None, kubeflow: KubeflowConfig, data: DataConfig, predict: PredictConfig | None
) -> Iterator[Violation]:
    """`as_of: scheduled` requires dated spans, and a server that passes the scheduled time to runs."""
    if schedule is None or schedule.as_of != "scheduled":
        return
    where: KeyPath = ("schedule", "as_of")
    paths = data.source.patterns if isinstance(data.source, FileSource) else ()
    only_predicts = (
        predict is not None and predict.only
    )  # which has the setting from the training, and reads other data
    if not only_predicts and not placeholders(paths) >= DATE_PLACEHOLDERS:
        yield where, "requires spans by date: add {YYYY}, {MM} and {DD} to the path"
    if "run_date" not in kubeflow.parameters:
        yield where, "add `run_date` to kubeflow.parameters, so that runs can set it"
    if kubeflow.backend != "2.17":
        what = "requires Kubeflow Pipelines 2.17, which passes the scheduled time to runs"
        yield where, f"{what}; kubeflow.backend is {kubeflow.backend}"
    if not schedule.pinned:
        yield where, "only pinned schedules pass the scheduled time to runs; remove `pinned: false`"


def drift_is_of_features(
    schedule: ScheduleConfig | None, features: dict[str, Feature], label: LabelConfig
) -> Iterator[Violation]:
    if schedule is None:
        return
    read = {column for name, one in features.items() for column in one.data_columns(name, features)} | {*label.columns}
    for column in schedule.drift.columns:
        if column not in read:
            where: KeyPath = ("schedule", "drift", "columns", column)
            yield where, f'no feature reads a column "{column}"{did_you_mean(column, read)}'


def drift_has_a_limit(schedule: ScheduleConfig | None) -> Iterator[Violation]:
    if schedule is None or schedule.retrain != "drift":
        return
    limits = schedule.drift
    if limits.categorical is None and limits.numeric is None and not limits.columns:
        what = "nothing is compared, so drift is never detected; set a limit in `categorical`, `numeric` or `columns`"
        yield ("schedule", "drift"), f"{what}, or use `retrain: new_span`"


def _known(zone: str) -> bool:
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
