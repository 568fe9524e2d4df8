"""A pipeline that trains only where there is something new, through a stock Kubeflow Pipelines release.

Its driver looks at the condition, and tells the time that a run was scheduled for; its API server tells what
`headrace explain-cache` goes by. Of the pipeline only ExampleGen is left under the condition: the rest decides nothing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import ROOT, headrace, wait_until
from kfp_cluster import BUCKET, SECRET, Bucket, Cluster, cluster
from kfp_kubernetes import Kubernetes
from kfp_metadata import ended_tasks
from kfp_server import Server

from headrace.components.trigger.decision import TrainingData, TrainingRecord
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.verify.driver import TaskRun

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: nightly}
data: {source: {kind: csv, path: "%s/{YYYY}-{MM}-{DD}.csv"}, window: 2, delay: 1}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
evaluate: {better_than_constant: false}
schedule: {cron: "0 5 * * *", retrain: new_span, as_of: scheduled}
kubeflow:
  image: registry.example/headrace:1
  object_store: {secret: %s, endpoint: "%s"}
  server: {endpoint: "%s", experiment: Default}
"""
DAYS = ("2025-12-31", "2026-01-01", "2026-01-02")


@dataclass
class Night:
    """One run: what its tasks left, the names of its pods, Argo's nodes, and what it is called."""

    name: str
    tasks: dict[str, TaskRun]
    pods: set[str]
    nodes: Mapping[str, Any]


@dataclass
class Nights:
    """Runs of one pipeline."""

    config: Path
    nights: dict[str, Night] = field(default_factory=dict)

    def text(self, night: str, key: str) -> str:
        return unpack(str(self.nights[night].tasks["spans"].parameters[key]))

    def spans(self, night: str) -> list[str]:
        return [span["name"] for span in json.loads(self.text(night, "spans"))["spans"]]


@pytest.fixture(scope="module")
def nights(
    server: Server, kfp_binary: Path, bucket: Bucket, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nights]:
    folder = tmp_path_factory.mktemp("cluster")
    days = folder / "days"
    days.mkdir()
    for number, day in enumerate(DAYS):
        rows = [f"{number}{row}.5,{row % 2}\n" for row in range(100)]
        (days / f"{day}.csv").write_text("".join(["fare,tip\n", *rows]))
    config = folder / "nightly.yaml"
    config.write_text(CONFIG % (days, SECRET, bucket.server, server.url))
    file = folder / "pipeline.yaml"
    done = headrace(ROOT, "compile", str(config), "-o", str(file))
    assert done.code == 0, done.out + done.err
    reported = Nights(config)
    with cluster(server, kfp_binary, bucket, folder, shared=[days]) as there:
        start = starting(there, alone(file))
        reported.nights["first"] = start(run_date="scheduled")
        _write_down(reported, bucket)
        reported.nights["nothing"] = start(run_date="scheduled")
        reported.nights["new"] = start(run_date="2026-01-03")
        reported.nights["asked"] = start(run_date="2026-01-02", retrain="always")
        with a_pod_deleted(there.kubernetes):
            reported.nights["deleted"] = start(run_date="2026-01-01", retrain="always")
        yield reported


@contextlib.contextmanager
def a_pod_deleted(kubernetes: Kubernetes) -> Iterator[None]:
    """Delete the first pod of a component that runs."""

    def delete() -> None:
        assert wait_until(lambda: any("container-impl" in name for name in kubernetes.running()))
        kubernetes.delete(next(name for name in kubernetes.running() if "container-impl" in name))

    with ThreadPoolExecutor(1) as pool:
        deleted = pool.submit(delete)
        yield
        deleted.result()


def starting(there: Cluster, file: Path) -> Callable[..., Night]:
    """Runs the pipeline to its end, with parameters."""
    chosen = there.uploaded(file, "nightly")

    def start(**parameters: str) -> Night:
        run = there.run(chosen, **parameters)
        return Night(run.name, ended_tasks(there.database, run.run_id), set(run.pods), run.nodes)

    return start


def alone(file: Path) -> Path:
    """The file with ExampleGen alone of the tasks under the condition."""
    first, *more = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    group = first["components"]["comp-condition-1"]["dag"]
    group["tasks"] = {"example-gen": group["tasks"]["example-gen"]}
    tasks = (*group["tasks"].values(), *first["root"]["dag"]["tasks"].values())
    used = {task["componentRef"]["name"] for task in tasks}
    first["components"] = {name: one for name, one in first["components"].items() if name in used}
    file.write_text(yaml.safe_dump_all([first, *more]), encoding="utf-8")
    return file


def _write_down(reported: Nights, bucket: Bucket) -> None:
    """As RecordTraining does at the end of a run."""
    (pipeline, *_) = yaml.safe_load_all((reported.config.parent / "pipeline.yaml").read_text())
    invocation = json.loads(unpack(pipeline["deploymentSpec"]["executors"]["exec-spans"]["container"]["args"][1]))
    data = TrainingData(
        fingerprint=json.loads(reported.text("first", "spans"))["fingerprint"],
        spans=tuple(reported.spans("first")),
        work=invocation["exec_properties"]["work"],
        statistics="artifacts/none",
    )
    text = TrainingRecord(judged=data, blessed=data).model_dump_json()
    bucket.client.put_object(Bucket=BUCKET, Key="v2/artifacts/nightly/trained.json", Body=text.encode())


def test_first_run_continues_with_the_day_that_it_was_scheduled_for_less_the_delay(nights: Nights) -> None:
    """Of a run that no schedule made, that is the day on which it was made: 2026-01-02, as kfp_argo has it."""
    assert nights.spans("first") == ["2025-12-31", "2026-01-01"]
    assert nights.text("first", "go") == "yes"
    assert "example-gen" in nights.nights["first"].tasks


def test_nothing_new_ends_the_run_after_the_first_task(nights: Nights) -> None:
    assert nights.text("nothing", "go") == "no"
    assert nights.text("nothing", "why").startswith("nothing new")
    assert not [name for name in nights.nights["nothing"].pods if name.startswith("example-gen")]
    assert "condition-1-driver" in nights.nights["nothing"].pods  # Kubeflow's own driver looked at the condition


def test_run_continues_with_a_new_span_or_a_parameter(nights: Nights) -> None:
    assert nights.text("new", "why") == "new data: 2026-01-02"
    assert "example-gen" in nights.nights["new"].pods
    assert nights.text("asked", "why") == "asked for"
    asked = nights.nights["asked"]
    assert asked.tasks["example-gen"].cached  # `retrain`, and the day, are no part of its key


def test_a_deleted_pod_is_tried_again_and_the_log_is_that_of_the_last_try(nights: Nights) -> None:
    night = nights.nights["deleted"]
    node = "(0).root(0).spans(0).executor"
    tries = [night.nodes[f"{node}({number})"] for number in range(2)]
    assert [one["phase"] for one in tries] == ["Error", "Succeeded"]
    assert tries[0]["message"] == "pod deleted"
    assert f"{node}(2)" not in night.nodes
    done = headrace(ROOT, "status", str(nights.config), night.name)
    assert "done" in next(line for line in done.lines if "Spans" in line)
    refused = headrace(ROOT, "logs", str(nights.config), "Spans", night.name, KUBECONFIG="/nowhere").err
    assert refused.splitlines()[-1].endswith(tries[1]["id"].rpartition("-")[2])


def test_explain_cache_names_the_new_span_from_what_the_server_tells(nights: Nights) -> None:
    name = nights.nights["new"].name
    done = headrace(ROOT, "explain-cache", str(nights.config), name, "--kubeflow", "--json")
    assert done.code == 0, done.err
    reported = {one["component"]: one for one in json.loads(done.out)["components"]}
    assert reported["Spans"]["result"] == "always runs"
    assert reported["ExampleGen"]["run"] == nights.nights["first"].name
    assert reported["ExampleGen"]["reasons"] == ["input spans from Spans: new: 2026-01-02; no longer read: 2025-12-31"]


def test_schedule_and_backfill_give_their_runs_the_day_and_the_word(server: Server, nights: Nights) -> None:
    assert headrace(ROOT, "schedule", str(nights.config)).code == 0
    (schedule,) = server.get("/apis/v2beta1/recurringruns")["recurringRuns"]
    assert schedule["runtime_config"]["parameters"] == {"run_date": "scheduled"}
    done = headrace(ROOT, "backfill", str(nights.config), "--from", "2025-12-31", "--to", "2025-12-31")
    assert done.code == 0, done.err
    runs = server.get("/apis/v2beta1/runs?page_size=100")["runs"]
    (run,) = [one for one in runs if one["display_name"] == "nightly-span-2025-12-31"]
    assert run["runtime_config"]["parameters"] == {"spans": "2025-12-31", "retrain": "always"}
