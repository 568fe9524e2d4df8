"""The rules of `schedule:`."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

from headrace.configs.cron import translate
from headrace.configs.data import DataConfig
from headrace.configs.features import Feature, data_columns
from headrace.configs.kubeflow import KubeflowConfig
from headrace.configs.label import LabelConfig
from headrace.configs.schedule import ScheduleConfig
from headrace.configs.sources import FileSource
from headrace.configs.span_fields import DATE, placeholders
from headrace.configs.suggest import did_you_mean
from headrace.configs.tree import Where

Finding = tuple[Where, str]


def schedule_is_one_of_two(schedule: ScheduleConfig | None) -> Iterator[Finding]:
    if schedule is not None and (schedule.cron is None) == (schedule.every is None):
        yield ("schedule",), 'say when: either `cron: "30 4 * * *"` or `every: 6h`'


def time_zones_are_known(schedule: ScheduleConfig | None, kubeflow: KubeflowConfig) -> Iterator[Finding]:
    if schedule is not None and not _known(schedule.time_zone):
        yield ("schedule", "time_zone"), f"there is no time zone {schedule.time_zone}; such as Europe/Berlin"
    if not _known(kubeflow.server.time_zone):
        zone = kubeflow.server.time_zone
        yield ("kubeflow", "server", "time_zone"), f"there is no time zone {zone}; such as Europe/Berlin"


def cron_can_be_scheduled(schedule: ScheduleConfig | None, kubeflow: KubeflowConfig) -> Iterator[Finding]:
    if schedule is None or schedule.cron is None:
        return
    zones = schedule.time_zone, kubeflow.server.time_zone
    if all(map(_known, zones)):
        try:
            translate(schedule.cron, *zones)
        except ValueError as error:
            yield ("schedule", "cron"), str(error)


def window_is_a_parameter(schedule: ScheduleConfig | None, kubeflow: KubeflowConfig) -> Iterator[Finding]:
    if schedule is not None and schedule.window is not None and "window" not in kubeflow.parameters:
        what = "put `window` into kubeflow.parameters, so that runs can be given one; or set data.window"
        yield ("schedule", "window"), what


def scheduled_day_can_be_told(
    schedule: ScheduleConfig | None, kubeflow: KubeflowConfig, data: DataConfig
) -> Iterator[Finding]:
    """`as_of: scheduled` needs dated spans, and a server that tells runs the time that they were scheduled for."""
    if schedule is None or schedule.as_of != "scheduled":
        return
    where: Where = ("schedule", "as_of")
    path = data.source.path if isinstance(data.source, FileSource) else ""
    if not placeholders(path) >= DATE:
        yield where, "only spans by date have days: the path needs {YYYY}, {MM} and {DD}"
    if "run_date" not in kubeflow.parameters:
        yield where, "put `run_date` into kubeflow.parameters, so that runs can be given one"
    if kubeflow.backend != "2.17":
        yield (
            where,
            f"only Kubeflow Pipelines 2.17 tells runs their scheduled time, and kubeflow.backend is {kubeflow.backend}",
        )
    if not schedule.pinned:
        yield where, "only pinned schedules tell runs their scheduled time; remove `pinned: false`"


def drift_is_of_features(
    schedule: ScheduleConfig | None, features: dict[str, Feature], label: LabelConfig
) -> Iterator[Finding]:
    if schedule is None:
        return
    read = {column for name, one in features.items() for column in data_columns(name, one, features)} | {label.key}
    for column in schedule.drift.columns:
        if column not in read:
            where: Where = ("schedule", "drift", "columns", column)
            yield where, f"no feature reads a column {column}{did_you_mean(column, read)}"


def drift_has_a_limit(schedule: ScheduleConfig | None) -> Iterator[Finding]:
    if schedule is None or schedule.retrain != "drift":
        return
    limits = schedule.drift
    if limits.categorical is None and limits.numeric is None and not limits.columns:
        what = "nothing is compared, so no drift is ever found; give `categorical`, `numeric` or `columns` a limit"
        yield ("schedule", "drift"), f"{what}, or use `retrain: new_span`"


def _known(zone: str) -> bool:
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


RULES = (
    schedule_is_one_of_two,
    time_zones_are_known,
    cron_can_be_scheduled,
    window_is_a_parameter,
    scheduled_day_can_be_told,
    drift_is_of_features,
    drift_has_a_limit,
)
