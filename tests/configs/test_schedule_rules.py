"""`schedule:` and `kubeflow.server:`: what is refused, and how it is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load

TAXI = Path(__file__).parents[2] / "configs" / "taxi.yaml"


def test_a_schedule_in_whole_is_taken() -> None:
    config = load(str(TAXI), None, ("schedule.every=6h", 'kubeflow.parameters=["window"]', "schedule.window=all"))
    assert config.schedule is not None
    assert config.schedule.seconds == 21600


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (("schedule.paused=true",), "either `cron:"),
        (("schedule.every=6h", "schedule.cron=0 4 * * *"), "either `cron:"),
        (("schedule.cron=0 4 * *",), "4 fields"),
        (("schedule.cron=0 4 * * *", "schedule.time_zone=Mars/Base"), "Mars/Base"),
        (("schedule.cron=0 4 * * *", "schedule.time_zone=Europe/Berlin"), "CRON_SCHEDULE_TIMEZONE"),
        (("schedule.every=6h", "schedule.window=3"), "kubeflow.parameters"),
        (("schedule.every=6h", "schedule.concurrency=11"), "schedule.concurrency"),
        (("kubeflow.server.auth.kind=bearer",), "either `file:` or `env:`"),
        (("kubeflow.server.auth.env=TOKEN",), "bearer or cookie, or remove env"),
        (("kubeflow.server.auth.kind=in_cluster", "kubeflow.server.auth.env=T"), "token is a file"),
        (("kubeflow.server.endpoint=ftp://x",), "kubeflow.server.endpoint"),
        (("kubeflow.server.endpoint=https://me:secret@x",), "kubeflow.server.endpoint"),
        (("kubeflow.server.endpoint=http://x", "kubeflow.server.ca_file=ca.pem"), "which has no certificate"),
        (("kubeflow.server.verify_tls=false", "kubeflow.server.ca_file=ca.pem"), "`ca_file`"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(settings: tuple[str, ...], reported: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(str(TAXI), None, settings)
    assert reported in str(error.value)


def test_a_zone_with_summer_time_is_taken_where_the_server_counts_in_it() -> None:
    zones = ("schedule.time_zone=Europe/Berlin", "kubeflow.server.time_zone=Europe/Berlin")
    assert load(str(TAXI), None, ("schedule.cron=0 4 * * *", *zones)).schedule is not None
