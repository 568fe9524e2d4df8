"""The verbs that submit and follow runs, against the API server of a stock Kubeflow Pipelines release."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from command import ROOT, Finished, Going, started_at_once
from kfp_server import Server
from kfp_workflows import put, report, with_pod

CONFIG = "configs/taxi.yaml"
IMAGE = "kubeflow.image=registry.example/headrace:1"
experiments = (f"experiment-{number}" for number in itertools.count())


class Kubeflow:
    """The command against one experiment of the server."""

    def __init__(self, server: Server, experiment: str) -> None:
        self.server, self.experiment = server, experiment

    def going(self, verb: str, *arguments: str, **environment: str) -> Going:
        settings = (
            IMAGE,
            f"kubeflow.server.endpoint={self.server.url}",
            f"kubeflow.server.experiment={self.experiment}",
        )
        options = [part for setting in settings for part in ("--set", setting)]
        return started_at_once(ROOT, verb, CONFIG, *arguments, *options, **environment)

    def __call__(self, verb: str, *arguments: str, code: int = 0, **environment: str) -> Finished:
        done = self.going(verb, *arguments, **environment).finish()
        assert done.code == code, done.out + done.err
        return done

    def runs(self) -> list[Any]:
        found = self.server.get("/apis/v2beta1/runs?page_size=200").get("runs", [])
        experiments = self.server.get("/apis/v2beta1/experiments?page_size=200")["experiments"]
        ids = {one["experiment_id"] for one in experiments if one["display_name"] == self.experiment}
        return [run for run in found if run["experiment_id"] in ids]

    def versions(self) -> list[Any]:
        (pipeline,) = self.server.get("/apis/v2beta1/pipelines")["pipelines"]
        path = f"/apis/v2beta1/pipelines/{pipeline['pipeline_id']}/versions?page_size=200"
        return list(self.server.get(path)["pipeline_versions"])

    def schedules(self) -> list[Any]:
        return list(self.server.get("/apis/v2beta1/recurringruns?page_size=200").get("recurringRuns", []))


@pytest.fixture
def kubeflow(server: Server) -> Kubeflow:
    return Kubeflow(server, next(experiments))


def name_of(done: Finished) -> str:
    return done.ending("run").split()[0]


@pytest.mark.slow
def test_a_submitted_run_has_its_parameters_root_and_version(kubeflow: Kubeflow) -> None:
    counted = ("--set", "data.source.path=/data/{SPAN}/*.csv")
    assert "2026-13-77 is no date" in kubeflow("submit", *counted, "--param", "spans=2026-13-77", code=1).err
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


@pytest.mark.slow
def test_the_same_command_makes_no_second_run_and_no_second_version(kubeflow: Kubeflow) -> None:
    first = kubeflow("submit")
    versions = kubeflow.versions()
    second = kubeflow("submit")
    assert "was there already" in second.out
    assert "(new)" not in second.out
    assert name_of(second) == name_of(first)
    assert kubeflow.versions() == versions
    assert len(kubeflow.runs()) == 1


@pytest.mark.slow
def test_other_content_makes_another_version_and_run(kubeflow: Kubeflow) -> None:
    kubeflow("submit")
    before = len(kubeflow.versions())
    done = kubeflow("submit", "--set", "train.epochs=9")
    assert "(new)" in done.out
    assert len(kubeflow.versions()) == before + 1
    assert len(kubeflow.runs()) == 2


@pytest.mark.slow
def test_again_makes_another_run_of_the_same(kubeflow: Kubeflow) -> None:
    names = [name_of(kubeflow("submit", *more)) for more in ((), ("--again",), ("--again",))]
    assert names[1:] == [f"{names[0]}-2", f"{names[0]}-3"]
    assert sorted(run["display_name"] for run in kubeflow.runs()) == names


@pytest.mark.slow
def test_a_name_taken_by_other_content_is_refused(kubeflow: Kubeflow) -> None:
    kubeflow("submit", "--name", "nightly")
    assert "was there already" in kubeflow("submit", "--name", "nightly").out
    done = kubeflow("submit", "--name", "nightly", "--parameter", "epochs=7", code=1)
    assert "there is a run nightly already, of other content" in done.err
    assert len(kubeflow.runs()) == 1


@pytest.mark.slow
def test_without_cache_no_task_of_the_version_may_be_reused(kubeflow: Kubeflow) -> None:
    done = kubeflow("submit", "--no-cache")
    name = done.ending("version").split()[0]
    specification = next(one for one in kubeflow.versions() if one["name"] == name)["pipeline_spec"]
    tasks = specification.get("pipeline_spec", specification)["root"]["dag"]["tasks"]
    assert tasks
    assert all(not task.get("cachingOptions", {}).get("enableCache") for task in tasks.values())


@pytest.mark.slow
def test_status_tells_each_component_s_state(kubeflow: Kubeflow) -> None:
    kubeflow("submit")
    (run,) = kubeflow.runs()
    assert "no run nowhere" in kubeflow("status", "nowhere", code=1).err
    nodes = {
        "a": ("spans", "Succeeded", 0, 9),
        "b": ("executor", "Succeeded", 2, 9),
        "c": ("example-gen", "Succeeded", 10, 11),
        "d": ("executor", "Skipped", 10, 10),
        "e": ("statistics-gen", "Running", 12, 0),
    }
    report(kubeflow.server, run["run_id"], "Running", nodes)
    shown = [line.split()[1:] for line in kubeflow("status").lines]
    assert ["Spans", "done", "9.0", "s"] in shown
    assert ["ExampleGen", "cached", "1.0", "s"] in shown
    assert ["StatisticsGen", "running"] in shown
    nodes["e"] = ("statistics-gen", "Failed", 12, 20)
    report(kubeflow.server, run["run_id"], "Failed", nodes)
    done = kubeflow("status", run["run_id"], code=1)
    assert done.lines[-1] == f"run       {run['display_name']}  failed: StatisticsGen"
    assert any(line.split()[1:] == ["Trainer", "skipped"] for line in done.lines)


@pytest.mark.slow
def test_a_failed_run_goes_on_and_a_finished_one_does_not(kubeflow: Kubeflow) -> None:
    name = name_of(kubeflow("submit"))
    (run,) = kubeflow.runs()
    assert "only what failed or was cancelled" in kubeflow("retry", name, code=1).err
    report(kubeflow.server, run["run_id"], "Failed", {"a": ("spans", "Failed", 0, 9)})
    assert "`headrace retry` goes on" in kubeflow("submit").out
    kubeflow("retry", name)
    (run,) = kubeflow.runs()
    assert run["state"] == "RUNNING"


@pytest.mark.slow
def test_a_cancelled_run_is_ended_once(kubeflow: Kubeflow) -> None:
    name = name_of(kubeflow("submit"))
    assert "is being cancelled" in kubeflow("cancel", name).out
    (run,) = kubeflow.runs()
    assert run["state"] == "CANCELING"
    assert kubeflow.server.workflow(run["run_id"])["spec"]["activeDeadlineSeconds"] == 0
    assert [line.split()[2] for line in kubeflow("runs").lines] == ["cancelling"]
    assert kubeflow("status", name).lines[-1].endswith("being cancelled")
    assert "is being cancelled" in kubeflow("cancel", name).out  # of which the server is not asked again
    assert "is still being cancelled" in kubeflow("retry", name, code=1).err


@pytest.mark.slow
def test_ctrl_c_ends_the_watching_and_not_the_run(kubeflow: Kubeflow) -> None:
    name = name_of(kubeflow("submit"))
    watching = kubeflow.going("status", "--watch")
    watching.wait_for(f"run {name}")
    watching.signal(signal.SIGINT)
    done = watching.finish()
    assert (done.code, done.err) == (130, f"The run {name} goes on; `headrace cancel` ends it.\ninterrupted\n")
    assert [run["state"] for run in kubeflow.runs()] == ["PENDING"]


@pytest.mark.slow
def test_a_run_deleted_underneath_is_told(kubeflow: Kubeflow) -> None:
    kubeflow("submit")
    (run,) = kubeflow.runs()
    request = urllib.request.Request(f"{kubeflow.server.url}/apis/v2beta1/runs/{run['run_id']}", method="DELETE")
    urllib.request.urlopen(request, timeout=30).close()
    for verb in ("status", "cancel", "retry"):
        assert f"no run {run['run_id']}" in kubeflow(verb, run["run_id"], code=1).err


@pytest.mark.slow
def test_a_log_is_told_of_a_pod_that_is_there_of_an_archive_and_of_the_launchers_copy(
    kubeflow: Kubeflow, tmp_path: Path
) -> None:
    kubeflow("submit")
    (run,) = kubeflow.runs()
    assert "trainer has no pod in the run" in kubeflow("logs", "Trainer", code=1).err
    workflow = kubeflow.server.workflow(run["run_id"])
    name = workflow["metadata"]["name"]
    pod = with_pod(kubeflow.server, workflow, run["run_id"], "trainer")
    put(kubeflow.server, f"/pods/{pod}", "epoch 1/10\n")
    assert kubeflow("logs", "Trainer").out == "epoch 1/10\n"
    urllib.request.urlopen(urllib.request.Request(f"{kubeflow.server.url}/pods/{pod}", method="DELETE")).close()
    store: dict[str, Any] = {"HEADRACE_STORE": str(tmp_path)}
    gone = kubeflow("logs", "Trainer", code=1, **store).err
    folder = f"mlpipeline/v2/artifacts/chicago-taxi/{run['run_id']}/trainer"
    assert f"kubectl logs -n kubeflow -c main {pod}" in gone
    assert f"the launcher's copy in minio://{folder}" in gone
    copy = tmp_path / "minio" / folder / "salt" / "executor-logs-0"
    copy.parent.mkdir(parents=True)
    copy.write_text("epoch 3/10\n")
    assert kubeflow("logs", "Trainer", **store).out == "epoch 3/10\n"
    put(kubeflow.server, f"/objects/logs/{name}/{pod}/main.log", "epoch 2/10\n")
    assert kubeflow("logs", "Trainer", **store).out == "epoch 2/10\n"


@pytest.mark.slow
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
    with made_by_hand(kubeflow.server, changed) as by_hand:
        assert kubeflow("unschedule").lines == [
            "schedule  chicago-taxi  deleted",
            f"recurring run {by_hand} of that name was not made by headrace, and stays",
        ]
        assert [one["recurring_run_id"] for one in kubeflow.schedules()] == [by_hand]
    assert kubeflow.schedules() == []
    assert kubeflow("unschedule").lines[-1].endswith("was not there")


@contextlib.contextmanager
def made_by_hand(server: Server, like: Mapping[str, Any]) -> Iterator[str]:
    """The id of a recurring run of the same content, but for what headrace writes down on its own."""
    given = ("display_name", "experiment_id", "pipeline_version_reference", "runtime_config", "trigger")
    body = {**{name: like[name] for name in given}, "max_concurrency": "1", "mode": "ENABLE", "description": "mine"}
    path, json_ = f"{server.url}/apis/v2beta1/recurringruns", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(path, json.dumps(body).encode(), json_), timeout=30) as answer:
        made: str = json.load(answer)["recurring_run_id"]
    yield made
    urllib.request.urlopen(urllib.request.Request(f"{path}/{made}", method="DELETE"), timeout=30).close()


@pytest.mark.slow
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
