"""`schedule:` when the pipeline runs on Kubeflow by itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headrace.configs.durations import Duration, seconds
from headrace.configs.section import Name, Section

Retrain = Literal["always", "new_span", "drift"]
Limit = Annotated[float, Field(ge=0, le=1)]


class DriftConfig(Section):
    """How far the newest span may be from the data that the blessed model was trained on (their train splits), by
    TFDV's comparators. Compared are the label and the columns that features read.
    """

    categorical: Limit | None = 0.1
    """L-infinity distance of columns of text: by how much the share of any one value may differ; null: they are not
    compared."""
    numeric: Limit | None = 0.1
    """Jensen-Shannon divergence of columns of numbers, between 0 (the same) and 1; null: they are not compared."""
    columns: dict[str, Limit] = {}
    """Limits of single columns."""


class ScheduleConfig(Section):
    """When the pipeline runs on Kubeflow by itself; `headrace schedule` brings the server to what stands here."""

    cron: Name | None = None
    """Five fields, as in crontab: minute, hour, day of the month, month, day of the week, such as `30 4 * * 1-5`."""
    every: Duration | None = None
    """In the place of `cron`: how long from one run to the next, such as `6h`."""
    time_zone: Name = "UTC"
    """What the hours of `cron` are counted in, such as `Europe/Berlin`. The server has one zone for all schedules
    (`kubeflow.server.time_zone`): another one can be had only if both differ by the same hours all the year."""
    window: Annotated[int, Field(gt=0)] | Literal["all"] | None = None
    """How many spans each run reads, the newest ones; null: `data.window`. Needs `window` in `kubeflow.parameters`."""
    retrain: Retrain = "always"
    """What a run needs to train: else it ends early, as a success. always: nothing; new_span: data that the last model
    did not learn from; drift: such data, if it drifted beyond `drift`. Settings or code that changed are a reason too.
    Holds for every run, `headrace run` included; `--param retrain=always` runs all the same."""
    drift: DriftConfig = DriftConfig()
    """What counts as drift."""
    as_of: Literal["newest", "scheduled"] = "newest"
    """newest: each run reads the newest spans there are. scheduled: those up to the day that it was scheduled for, less
    `data.delay`, so that a late run reads what it would have read in time. Needs `run_date` in `kubeflow.parameters`,
    Kubeflow 2.17 and `pinned`."""
    catch_up: bool = False
    """Whether runs that were missed, as the schedule was paused or the server down, are made up for one by one; else
    only the latest of them is."""
    concurrency: Annotated[int, Field(ge=1, le=10)] = 1
    """How many of its runs may go on at once. What comes due meanwhile waits."""
    pinned: bool = True
    """Whether runs are of the content that was scheduled; else each is of the newest version on the server."""
    cache: bool = True
    """Whether Kubeflow may reuse what earlier runs made."""
    paused: bool = False
    """Whether the schedule is kept on the server without making runs."""

    @property
    def seconds(self) -> int | None:
        """`every` in seconds."""
        return None if self.every is None else seconds(self.every)
