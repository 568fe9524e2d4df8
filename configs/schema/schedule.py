"""`schedule:` when the pipeline runs on Kubeflow on its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.schema.section import Duration, Name, PositiveInt, Section, defaults_of, to_seconds

Retrain = Literal["always", "new_span", "drift"]
Limit = Annotated[float, Field(ge=0, le=1)]


class DriftConfig(Section):
    """How far the newest span may drift from the data on which the blessed model was trained, comparing train splits
    (with `data.split_spans`, the newest span by the split that holds it), by TFDV's comparators. The label and the
    columns that features read are compared.
    """

    categorical: Limit | None = 0.1
    """Maximum L-infinity distance of text columns: by how much the frequency of any value may differ. null: they are
    not compared."""
    numeric: Limit | None = 0.1
    """Maximum Jensen-Shannon divergence of numeric columns, between 0 (equal) and 1. null: they are not compared."""
    columns: dict[str, Limit] = {}
    """Limits for individual columns."""


class ScheduleConfig(Section):
    """When the pipeline runs on Kubeflow on its own; `headrace schedule` applies these settings to the server."""

    cron: Name | None = None
    """Five fields as in crontab: minute, hour, day of the month, month, day of the week, such as `30 4 * * 1-5`."""
    every: Duration | None = None
    """Time from one run to the next, such as `6h`, instead of `cron`."""
    time_zone: Name = "UTC"
    """Time zone of `cron`, such as `Europe/Berlin`. The server has one zone for all schedules
    (`kubeflow.server.time_zone`); a different one works only if their offset is the same all year."""
    window: PositiveInt | Literal["all"] | None = None
    """How many of the newest spans each run reads. null: `data.window`. Requires `window` in `kubeflow.parameters`."""
    retrain: Retrain = "always"
    """When a run trains; otherwise it ends early, as a success. always: in every run; new_span: if there is data that
    the last model was not trained on; drift: if such data drifted beyond `drift`. Changed settings or code are a reason
    too. Applies to every run, including `headrace run`; `--param retrain=always` trains regardless."""
    drift: DriftConfig = defaults_of(DriftConfig)
    """What counts as drift."""
    as_of: Literal["newest", "scheduled"] = "newest"
    """newest: each run reads the newest spans. scheduled: the spans up to the day for which it was scheduled, minus
    `data.delay`, so that a late run reads what it would have read on time. Requires `run_date` in
    `kubeflow.parameters`, Kubeflow 2.17 and `pinned`."""
    catch_up: bool = False
    """Whether all runs that were missed, because the schedule was paused or the server was down, are started later;
    false: only the latest one."""
    concurrency: Annotated[int, Field(ge=1, le=10)] = 1
    """Maximum number of concurrent runs. Further runs wait."""
    pinned: bool = True
    """Whether runs use the pipeline version that was scheduled; false: the newest version on the server."""
    cache: bool = True
    """Whether Kubeflow may reuse the results of earlier runs."""
    paused: bool = False
    """Whether the schedule stays on the server without starting runs."""

    @property
    def seconds(self) -> int | None:
        """`every` in seconds."""
        return None if self.every is None else to_seconds(self.every)
