"""The verbs that submit and follow runs, with the same assertions against any Kubeflow: the API server of a release
that the tests built, and the one that HEADRACE_TEST_KFP_ENDPOINT names, if any (without namespaces of users).
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from command import ROOT, headrace
from kfp_commands import CONFIG, Kubeflow, name_of
from receivers import http_receiver

pytestmark = pytest.mark.slow

GOING = {"PENDING", "RUNNING"}
"""States of a run of which nobody has asked to end."""


def test_a_submitted_run_has_its_parameters_root_and_version(kubeflow: Kubeflow) -> None:
    counted = ("--set", "data.source.path=/data/{SPAN}/*.csv")
    assert "2026-13-77 is not a date" in kubeflow("submit", *counted, "--param", "spans=2026-13-77", code=1).err
    done = kubeflow("submit", *counted, "--parameter", "epochs=3", "--parameter", "spans=2..4")
    (run,) = kubeflow.runs()
    assert run["run_id"] in done.out
    assert run["display_name"] == name_of(done)
    assert run["runtime_config"] == {
        "parameters": {"epochs": 3, "spans": "2..4"},
        "pipeline_root": "minio://mlpipeline/v2/artifacts",
    }
    version = next(
        one
        for one in kubeflow.versions()
        if one["pipeline_version_id"] == run["pipeline_version_reference"]["pipeline_version_id"]
    )
    assert done.ending("version").split()[0] == version["name"]


def test_the_same_command_makes_no_second_run_and_no_second_version(kubeflow: Kubeflow) -> None:
    first = kubeflow("submit")
    versions = kubeflow.versions()
    second = kubeflow("submit")
    assert "exists already" in second.out
    assert "(new)" not in second.out
    assert name_of(second) == name_of(first)
    assert kubeflow.versions() == versions
    assert len(kubeflow.runs()) == 1


def test_other_content_makes_another_version_and_run(kubeflow: Kubeflow) -> None:
    kubeflow("submit")
    before = len(kubeflow.versions())
    done = kubeflow("submit", "--set", "train.epochs=9")
    assert "(new)" in done.out
    assert len(kubeflow.versions()) == before + 1
    assert len(kubeflow.runs()) == 2


def test_again_makes_another_run_of_the_same(kubeflow: Kubeflow) -> None:
    names = [name_of(kubeflow("submit", *more)) for more in ((), ("--again",), ("--again",))]
    assert names[1:] == [f"{names[0]}-2", f"{names[0]}-3"]
    assert sorted(run["display_name"] for run in kubeflow.runs()) == names


def test_a_name_taken_by_other_content_is_refused(kubeflow: Kubeflow) -> None:
    kubeflow("submit", "--name", "nightly")
    assert "exists already" in kubeflow("submit", "--name", "nightly").out
    done = kubeflow("submit", "--name", "nightly", "--parameter", "epochs=7", code=1)
    assert "a run nightly exists with other content" in done.err
    assert len(kubeflow.runs()) == 1


def test_names_at_their_limits_are_kept_and_longer_ones_refused(kubeflow: Kubeflow) -> None:
    """Of the pipeline 63 characters, of the experiment 128, of the run 250 and the number of `--again`."""
    kubeflow.pipeline = kubeflow.pipeline.ljust(63, "p")
    kubeflow.experiment = kubeflow.experiment.ljust(128, "e")
    name, nightly = kubeflow.pipeline.ljust(250, "r"), ("--set", "schedule={cron: '0 3 * * *'}")
    assert [name_of(kubeflow("submit", "--name", name, *more)) for more in ((), ("--again",))] == [name, f"{name}-2"]
    kubeflow("schedule", *nightly)
    (schedule,) = kubeflow.schedules()
    assert schedule["display_name"] == kubeflow.pipeline
    assert sorted(run["display_name"] for run in kubeflow.runs()) == [name, f"{name}-2"]
    kubeflow("unschedule", *nightly)
    assert "--name" in kubeflow("submit", "--name", f"{name}r", code=1).err
    for setting in (f"pipeline.name={kubeflow.pipeline}p", f"kubeflow.server.experiment={kubeflow.experiment}e"):
        refused = headrace(ROOT, "validate", CONFIG, "--set", setting)
        assert refused.code == 1
        assert setting.partition("=")[0] in refused.err


def test_without_cache_no_task_of_the_version_may_be_reused(kubeflow: Kubeflow) -> None:
    done = kubeflow("submit", "--no-cache")
    name = done.ending("version").split()[0]
    specification = next(one for one in kubeflow.versions() if one["name"] == name)["pipeline_spec"]
    tasks = specification.get("pipeline_spec", specification)["root"]["dag"]["tasks"]
    assert tasks
    assert all(not task.get("cachingOptions", {}).get("enableCache") for task in tasks.values())


def test_a_failed_run_continues_and_a_finished_one_does_not(kubeflow: Kubeflow) -> None:
    name = name_of(kubeflow("submit"))
    (run,) = kubeflow.runs()
    assert "failed or was cancelled" in kubeflow("retry", name, code=1).err
    kubeflow.end_badly(run["run_id"])
    assert "`headrace retry`" in kubeflow("submit").out
    kubeflow("retry", name)
    (run,) = kubeflow.runs()
    assert run["state"] in GOING


def test_ctrl_c_ends_the_watching_and_not_the_run(kubeflow: Kubeflow) -> None:
    name = name_of(kubeflow("submit"))
    watching = kubeflow.going("status", "--watch")
    watching.wait_for(f"run {name}")
    watching.signal(signal.SIGINT)
    done = watching.finish()
    assert done.code == 130
    assert re.fullmatch(rf"The run {name} .*`headrace cancel`.*\ninterrupted\n", done.err)
    assert {run["state"] for run in kubeflow.runs()} <= GOING


def test_a_run_deleted_underneath_is_reported(kubeflow: Kubeflow) -> None:
    kubeflow("submit")
    (run,) = kubeflow.runs()
    kubeflow.ask("DELETE", f"runs/{run['run_id']}")
    for verb in ("status", "cancel", "retry"):
        assert f"no run {run['run_id']}" in kubeflow(verb, run["run_id"], code=1).err


def test_a_schedule_is_made_changed_and_deleted_as_the_config_says(kubeflow: Kubeflow) -> None:
    cron = ("--set", "schedule.cron=30 4 * * 1-5")
    assert kubeflow("schedule", *cron).lines[-1].endswith("0 30 4 * * 1,2,3,4,5 UTC  made")
    (made,) = kubeflow.schedules()
    assert made["trigger"] == {"cron_schedule": {"cron": "0 30 4 * * 1,2,3,4,5"}}
    assert (made["max_concurrency"], made["no_catchup"], made["status"]) == ("1", True, "ENABLED")
    assert made["runtime_config"]["pipeline_root"] == "minio://mlpipeline/v2/artifacts"
    assert made["pipeline_version_reference"]["pipeline_version_id"] in {
        one["pipeline_version_id"] for one in kubeflow.versions()
    }
    assert kubeflow("schedule", *cron, "--set", "schedule.paused=true").lines[-1].endswith("(paused)  changed")
    (paused,) = kubeflow.schedules()
    assert (paused["recurring_run_id"], paused["status"]) == (made["recurring_run_id"], "DISABLED")
    window = 'kubeflow.parameters=["window"]'
    other = (
        "--set",
        "schedule.every=6h",
        "--set",
        window,
        "--set",
        "schedule.window=7",
        "--set",
        "schedule.pinned=false",
    )
    more = ("--set", "schedule.catch_up=true", "--set", "schedule.concurrency=3")
    assert kubeflow("schedule", *other, *more).lines[-1].endswith("every 6h  changed")
    (changed,) = kubeflow.schedules()
    assert changed["trigger"] == {"periodic_schedule": {"interval_second": "21600"}}
    assert changed["runtime_config"]["parameters"] == {"window": "7"}
    assert (changed["max_concurrency"], changed.get("no_catchup", False)) == ("3", False)
    assert not changed["pipeline_version_reference"].get("pipeline_version_id")
    assert kubeflow("schedule", *other, *more).lines[-1].endswith("every 6h  unchanged")
    assert kubeflow.schedules() == [changed]
    with kubeflow.made_by_hand(changed) as by_hand:
        deleted, stays = kubeflow("unschedule").lines
        assert deleted == f"schedule  {kubeflow.pipeline}  deleted"
        assert by_hand in stays
        assert stays.endswith("stays")
        assert [one["recurring_run_id"] for one in kubeflow.schedules()] == [by_hand]
    assert kubeflow.schedules() == []
    assert kubeflow("unschedule").lines[-1].endswith("did not exist")


def test_a_backfill_submits_each_span_once(kubeflow: Kubeflow) -> None:
    dated: tuple[str, ...] = ("--set", "data.source.path=/data/{YYYY}-{MM}-{DD}/*.csv", "--set", "data.window=all")
    dated += ("--set", "schedule={every: 6h, window: 3}", "--set", "kubeflow.parameters=[spans, window]")
    assert "the spans of this data are dates" in kubeflow("backfill", *dated, "--from", "1", "--to", "3", code=1).err
    two = kubeflow("backfill", *dated, "--from", "2026-02-28", "--to", "2026-03-01")
    assert two.lines[-1] == "2 of 2 spans submitted"
    three = kubeflow("backfill", *dated, "--from", "2026-02-28", "--to", "2026-03-02")
    assert three.lines[-1] == "1 of 3 spans submitted"
    given = [run["runtime_config"]["parameters"] for run in kubeflow.runs()]
    assert sorted(one["spans"] for one in given) == ["2026-02-28", "2026-03-01", "2026-03-02"]
    assert {one["window"] for one in given} == {"3"}


def test_status_runs_and_logs_describe_a_submitted_run(kubeflow: Kubeflow) -> None:
    name = name_of(kubeflow("submit"))
    (run,) = kubeflow.runs()
    assert "no run nowhere" in kubeflow("status", "nowhere", code=1).err
    for asked in ((), (name,), (run["run_id"],)):
        assert name in kubeflow("status", *asked).lines[-1]
    (line,) = kubeflow("runs").lines
    assert name in line
    assert line.split()[2] in {state.lower() for state in GOING}
    assert "Trainer has no pod in the run" in kubeflow("logs", "Trainer", code=1).err


def test_a_run_is_cancelled_and_cannot_be_cancelled_once_it_has_ended(kubeflow: Kubeflow) -> None:
    name = name_of(kubeflow("submit"))
    assert "is being cancelled" in kubeflow("cancel", name).out
    (run,) = kubeflow.runs()
    assert run["state"] not in GOING
    kubeflow.end_badly(run["run_id"])
    assert f"{name}  had ended: " in kubeflow("cancel", name).out


def test_a_run_that_ended_badly_is_told_once(kubeflow: Kubeflow, tmp_path: Path) -> None:
    kubeflow("submit")
    (run,) = kubeflow.runs()
    with http_receiver() as hook:
        receiver = f"notify={{ops: {{kind: webhook, url: {hook.url}, on: [failed, interrupted]}}}}"
        settings = ("--kubeflow", "--set", receiver)
        assert "no further run has ended" in kubeflow("notify", *settings, HEADRACE_STORE=str(tmp_path)).out
        kubeflow.end_badly(run["run_id"])
        assert "told ops" in kubeflow("notify", *settings, HEADRACE_STORE=str(tmp_path)).out
        assert "no further run has ended" in kubeflow("notify", *settings, HEADRACE_STORE=str(tmp_path)).out
    (request,) = hook.requests
    assert run["run_id"] in request.json["id"]


def test_a_schedule_that_is_made_twice_is_one(kubeflow: Kubeflow) -> None:
    cron = ("--set", "schedule.cron=30 4 * * 1-5")
    said = [kubeflow("schedule", *cron).lines[-1] for _ in range(2)]
    assert [line.split()[-1] for line in said] == ["made", "unchanged"]
    assert len(kubeflow.schedules()) == 1
    kubeflow("unschedule")
    assert kubeflow.schedules() == []
