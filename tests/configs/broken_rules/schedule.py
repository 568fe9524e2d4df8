"""Configs that break the rules of `schedule:`."""

from __future__ import annotations

from broken_rules.sections import Broken

BROKEN: Broken = {
    "cron_or_every": [
        (
            "schedule: {paused: true}",
            '1: schedule: either `cron: "30 4 * * *"` or `every: 6h`',
        )
    ],
    "time_zones_are_known": [
        (
            "schedule: {every: 6h, time_zone: Mars/Base}",
            "1: schedule.time_zone: such as Europe/Berlin",
        )
    ],
    "cron_can_be_scheduled": [
        (
            "schedule: {cron: 0 0 31 2 *}",
            "1: schedule.cron: February has no day 31",
        ),
        (
            "schedule: {cron: '0 0 31 4,6 */2'}",
            "1: schedule.cron: April and June have no day 31",
        ),
        (
            "schedule: {cron: 0 4 * *}",
            "1: schedule.cron: five: minute, hour, day of the month, month, weekday",
        ),
    ],
    "window_is_a_parameter": [
        (
            "schedule: {every: 6h, window: 3}",
            "1: schedule.window: to kubeflow.parameters, so that runs can",
        )
    ],
    "scheduled_day_is_available": [
        (
            "schedule: {every: 6h, as_of: scheduled}",
            "1: schedule.as_of: {YYYY}, {MM} and {DD}",
        ),
        (
            "schedule: {every: 6h, as_of: scheduled, pinned: false}\n"
            "data: {source: {kind: csv, path: '{YYYY}-{MM}-{DD}.csv'}}",
            "1: schedule.as_of: remove `pinned: false`",
        ),
    ],
    "drift_is_of_features": [
        (
            "schedule: {every: 6h, drift: {columns: {fares: 0.1}}}",
            '1: schedule.drift.columns.fares: did you mean "fare"?',
        )
    ],
    "drift_has_a_limit": [
        (
            "schedule: {every: 6h, retrain: drift, drift: {categorical: null, numeric: null}}",
            "1: schedule.drift: `categorical`, `numeric` or `columns`",
        )
    ],
}
