"""The rules of `schedule:`."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

from configs.cron import translate
from configs.kubeflow import KubeflowConfig
from configs.schedule import ScheduleConfig
from configs.tree import Where

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


def _known(zone: str) -> bool:
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


RULES = (schedule_is_one_of_two, time_zones_are_known, cron_can_be_scheduled, window_is_a_parameter)
