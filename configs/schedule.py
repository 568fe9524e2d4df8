"""`schedule:` when the pipeline runs on Kubeflow by itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.section import Name, Section

Interval = Annotated[str, Field(pattern=r"^[1-9][0-9]*[smhd]$")]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class ScheduleConfig(Section):
    """When the pipeline runs on Kubeflow by itself; `headrace schedule` brings the server to what stands here."""

    cron: Name | None = None
    """Five fields, as in crontab: minute, hour, day of the month, month, day of the week, such as `30 4 * * 1-5`."""
    every: Interval | None = None
    """In the place of `cron`: how long from one run to the next, such as `6h`."""
    time_zone: Name = "UTC"
    """What the hours of `cron` are counted in, such as `Europe/Berlin`. The server has one zone for all schedules
    (`kubeflow.server.time_zone`): another one can be had only if both differ by the same hours all the year."""
    window: Annotated[int, Field(gt=0)] | Literal["all"] | None = None
    """How many spans each run reads, the newest ones; null: `data.window`. Needs `window` in `kubeflow.parameters`."""
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
        return None if self.every is None else int(self.every[:-1]) * UNITS[self.every[-1]]
