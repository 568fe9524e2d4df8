"""Runs on a Kubeflow whose API tells of tasks and artifacts itself, without ML Metadata."""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forks
import pytest
from compiled_trips import compiled
from faulty_backend import Backend, connected, fails, serving
from native_backend import WORKFLOW, NativeBackend, artifact, node, pods, root, task

from headrace.pipeline.cache.explanation import ComponentExplanation
from headrace.pipeline.kubeflow.server import runs
from headrace.pipeline.kubeflow.server.cache import explain
from headrace.pipeline.kubeflow.server.logs import LauncherLogs, read_log
from headrace.pipeline.kubeflow.server.status import run_record
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.results.record import Status

NAMES = ("spans", "example-gen", "transform", "trainer", "pusher")
TASKS = {
    name: {"taskInfo": {"name": name.title().replace("-", "")}, "dependentTasks": list(NAMES[number - 1 : number])}
    for number, name in enumerate(NAMES)
}
POD = f"{WORKFLOW}-system-container-impl-7"
HEADRACE = Path(sys.executable).with_name("headrace")
TRIPS = Path(__file__).with_name("golden") / "trips.yaml"


def at(second: int) -> str:
    return f"2026-11-21T04:00:{second:02}Z"


def run(state: str, number: int = 0, **more: Any) -> dict[str, Any]:
    times = {"created_at": f"2026-11-21T{number:02}:00:00Z", "finished_at": f"2026-11-21T{number:02}:10:00Z"}
    return {"run_id": f"id-{number}", "display_name": f"run-{number}", "state": state, **times, **more}


@pytest.fixture
def native() -> Iterator[NativeBackend]:
    with serving(NativeBackend()) as alive:
        assert isinstance(alive, NativeBackend)
        yield alive


STORY = [
    root("RUNNING", at(0)),
    task("spans", "SUCCEEDED", at(1), at(9)),
    task("example-gen", "CACHED", at(10), at(11)),
    task("transform", "SUCCEEDED", at(12), at(30)),
    task("trainer", "RUNNING", at(31)),
]
DETAILS = [
    ("root", "RUNNING", 0, None),
    ("spans", "SUCCEEDED", 1, 9),
    ("executor", "SUCCEEDED", 4, 9),
    ("example-gen", "SUCCEEDED", 10, 11),
    ("executor", "SKIPPED", 10, 10),
    ("transform", "SUCCEEDED", 12, 30),
    ("executor", "SUCCEEDED", 15, 30),
    ("trainer", "RUNNING", 31, None),
]
"""The same, as a server with ML Metadata tells it: Argo's nodes."""


def with_metadata(backend: Backend) -> Any:
    details = [
        {"display_name": name, "state": state, "start_time": at(begun), **({"end_time": at(ended)} if ended else {})}
        for name, state, begun, ended in DETAILS
    ]
    backend.faults = [fails(200, run("RUNNING", run_details={"task_details": details}))]
    found = runs.get_run(connected(backend), "id-0")
    assert len(backend.seen) == 1, "a server with ML Metadata is asked for nothing more"
    return found


def without_metadata(native: NativeBackend) -> Any:
    native.add(run("RUNNING"), STORY)
    found = runs.get_run(connected(native), "id-0")
    assert [path.partition("?")[0] for _, path in native.seen] == [
        "/apis/v2beta1/runs/id-0",
        *["/apis/v2beta1/runs/id-0/tasks"] * 3,  # pages of two
    ]
    return found


def test_both_kinds_of_server_report_the_same_record_of_the_same_run(backend: Backend, native: NativeBackend) -> None:
    old, new = (run_record(found, TASKS, "trips") for found in (with_metadata(backend), without_metadata(native)))
    assert [(one.id, one.status) for one in new.nodes] == [
        ("Spans", Status.DONE),
        ("ExampleGen", Status.CACHED),
        ("Transform", Status.DONE),
        ("Trainer", Status.RUNNING),
        ("Pusher", Status.WAITING),
    ]
    assert new == old
    assert new.node("Transform").seconds(0.0) == 18.0


def test_a_task_that_failed_says_why_and_what_the_cluster_ended_is_interrupted(native: NativeBackend) -> None:
    failed = {"state": "FAILED", "status_metadata": {"message": "failed to execute component: exit status 1"}}
    native.add(run("FAILED"), [*STORY[:3], {**STORY[3], **failed}, STORY[4]])
    shown = run_record(runs.get_run(connected(native), "id-0"), TASKS, "trips")
    assert (shown.status, shown.node("Transform").status) == (Status.FAILED, Status.FAILED)
    assert shown.node("Transform").error == "failed to execute component: exit status 1"
    assert shown.node("Trainer").status is Status.INTERRUPTED  # its launcher was killed and could not say so
    assert shown.node("Pusher").status is Status.SKIPPED


def test_a_run_from_before_the_upgrade_is_reported_by_its_workflow(native: NativeBackend) -> None:
    nodes = [
        {**node(name, number, "Succeeded", at(number)), "displayName": name, "finishedAt": at(number + 1)}
        for number, name in enumerate(NAMES)
    ]
    native.add(run("SUCCEEDED"), [], nodes)
    shown = run_record(runs.get_run(connected(native), "id-0"), TASKS, "trips")
    assert {one.status for one in shown.nodes} == {Status.DONE}
    assert shown.node("Trainer").started == dt.datetime(2026, 11, 21, 4, 0, 3, tzinfo=dt.UTC).timestamp()


def kept(tmp_path: Path) -> LauncherLogs:
    return LauncherLogs(Store({}, str(tmp_path)), "s3://bucket", "kubeflow")


def test_logs_are_read_by_the_newest_pod_of_the_workflow_or_else_by_the_task_s_own(
    native: NativeBackend, tmp_path: Path
) -> None:
    first, second = (f"{WORKFLOW}-retry-system-container-impl-{number}" for number in (7, 6))
    trainer = task("trainer", "RUNNING", at(31), pods=pods(first))  # the second try's pod is not reported yet
    nodes = [
        node("trainer(0).executor(1)", 6, "Running", at(50), "retry-system-container-impl"),
        node("trainer(0).executor(0)", 7, "Failed", at(40), "retry-system-container-impl"),
        node("pusher(0).executor(0)", 8, "Running", at(55)),
    ]
    native.add(run("RUNNING"), [*STORY[:-1], trainer], nodes)
    native.add(run("RUNNING", 1), [*STORY[:-1], trainer])
    server = connected(native)
    for run_id, pod in (("id-0", second), ("id-1", first)):
        found = runs.get_run(server, run_id)
        native.faults = [None, fails(200, "step 1\n")]
        assert read_log(server, found, "trainer", {}, kept(tmp_path)) == "step 1\n"
        assert native.seen[-1][1] == f"/apis/v1alpha1/runs/{run_id}/nodes/{pod}/log"


def explained(native: NativeBackend) -> dict[str, ComponentExplanation]:
    server = connected(native)
    session: Any = SimpleNamespace(
        server=server,
        pipeline="trips",
        find=lambda name: runs.get_run(server, name or native.runs[-1]["run_id"]),
        runs=lambda _: [runs.get_run(server, one["run_id"]) for one in reversed(native.runs)],
    )
    return {one.component: one for one in explain(session, None).components}


@pytest.mark.slow
def test_cache_is_explained_from_the_tasks_own_inputs_also_of_cached_tasks(native: NativeBackend) -> None:
    specification = compiled()
    names = list(specification["root"]["dag"]["tasks"])
    for number, (state, identity) in enumerate([("SUCCEEDED", "a1"), ("CACHED", "a1"), ("SUCCEEDED", "a2")]):
        uri = f"minio://mlpipeline/v2/artifacts/trips/run-of-{identity}/example-gen/salt/examples"
        inputs = {"artifacts": [artifact("examples", "example-gen", identity, uri)]}
        tasks = [task(name, "SUCCEEDED", at(2 * place), at(2 * place + 1)) for place, name in enumerate(names)]
        place = names.index("transform")
        tasks[place] = {**tasks[place], "state": state, "inputs": inputs}
        native.add(run("SUCCEEDED", number, pipeline_spec=specification), tasks)
    third = explained(native)["Transform"]
    assert third.reasons == ["input examples from ExampleGen: made by run run-of-a1, now by run run-of-a2"]
    assert not any(path.startswith("/apis/v1beta1") for _, path in native.seen)
    native.runs.pop()
    assert explained(native)["Transform"].result == "reused"


@pytest.mark.slow
def test_artifacts_of_one_name_are_distinguished_by_their_ids(native: NativeBackend) -> None:
    specification = compiled()
    names = list(specification["root"]["dag"]["tasks"])
    for number, identity in enumerate(["a1", "a2"]):
        inputs = {"artifacts": [artifact("examples", "example-gen", identity, "minio://elsewhere")]}
        tasks = [task(name, "SUCCEEDED", at(2 * place), at(2 * place + 1)) for place, name in enumerate(names)]
        tasks[names.index("transform")]["inputs"] = inputs
        native.add(run("SUCCEEDED", number, pipeline_spec=specification), tasks)
    (reason,) = explained(native)["Transform"].reasons
    assert reason.startswith("input examples from ExampleGen")


@pytest.mark.slow
def test_the_commands_show_such_runs(native: NativeBackend, tmp_path: Path) -> None:
    native.specification = compiled()
    names = list(native.specification["root"]["dag"]["tasks"])
    version = {"pipeline_version_reference": {"pipeline_id": "p", "pipeline_version_id": "v"}}
    for number, identity in enumerate(["a1", "a2"]):
        tasks = [task(name, "CACHED", at(2 * place), at(2 * place + 1)) for place, name in enumerate(names)]
        uri = f"minio://mlpipeline/v2/artifacts/trips/run-of-{identity}/example-gen/salt/examples"
        inputs = {"artifacts": [artifact("examples", "example-gen", identity, uri)]}
        place = names.index("transform")
        tasks[place] |= {"state": "SUCCEEDED", "inputs": inputs, "pods": pods(POD)}
        native.add(run("SUCCEEDED", number, **version), tasks)
    native.logs[POD] = "step 1\n"

    def command(*words: str) -> str:
        verb, *more = words
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        asked = [str(HEADRACE), verb, str(TRIPS), *more, "--set", f"kubeflow.server.endpoint={native.url}"]
        done = forks.run(asked, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert re.findall(r"run-\d", command("runs")) == ["run-1", "run-0"]
    shown = command("status", "id-0").splitlines()
    assert shown[-1].startswith("run       run-0")
    assert "cached" in next(line for line in shown if "Trainer" in line)
    assert "input examples from ExampleGen: made by run run-of-a1, now by run run-of-a2" in command(
        "explain-cache", "--kubeflow"
    )
    assert command("logs", "Transform", "id-1") == "step 1\n"
