"""Compiled pipelines that train only where there is a reason to, and the run date that Kubeflow tells them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.common.errors import ConfigError, RunError
from headrace.components.spans.find import find_spans
from headrace.components.trigger.decision import TrainingData, TrainingRecord, update
from headrace.configs.config import PipelineConfig
from headrace.configs.loading.loader import load
from headrace.pipeline.kubeflow.compiler.compile import compile_pipeline
from headrace.pipeline.kubeflow.document import TaskSpec, all_tasks, flat_graph, without_cache
from headrace.pipeline.kubeflow.pod.invocation import unpack
from headrace.pipeline.kubeflow.pod.parameters import offered, with_parameters
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.run_component import SPANS_EXECUTOR
from headrace.pipeline.kubeflow.server.schedules import applicable
from headrace.pipeline.kubeflow.server.submit import run_values
from headrace.pipeline.kubeflow.store import Store
from headrace.pipeline.kubeflow.verify.cluster import Cluster
from headrace.pipeline.kubeflow.verify.driver import condition_holds
from headrace.pipeline.kubeflow.verify.verify import compared
from headrace.pipeline.results.record import NodeRecord, RunRecord, Status
from headrace.pipeline.training_digest import training_digest

TRIPS = """\
pipeline: {name: trips}
data: {source: {kind: csv, path: "%s/{YYYY}-{MM}-{DD}.csv"}, window: 2}
label: {key: tip, kind: binary}
features: {fare: {column: numeric}}
kubeflow: {image: "registry.example/headrace:1", server: {time_zone: America/New_York}}
schedule: {cron: "0 5 * * *", retrain: %s, as_of: scheduled, time_zone: America/New_York}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "2026-11-20.csv").write_text("fare,tip\n1.5,0\n")
    return tmp_path


def config(folder: Path, retrain: str = "drift", *overrides: str) -> PipelineConfig:
    (folder / "trips.yaml").write_text(TRIPS % (folder, retrain))
    return load(folder / "trips.yaml", None, overrides)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("trips")
    text = compile_pipeline(config(folder), {})
    return text, next(yaml.safe_load_all(text))


def test_what_follows_a_decision_stands_under_its_condition(compiled: tuple[str, dict[str, Any]]) -> None:
    pipeline = compiled[1]
    outer, inner = pipeline["components"]["comp-condition-1"]["dag"], pipeline["components"]["comp-condition-2"]["dag"]
    root = pipeline["root"]["dag"]["tasks"]
    assert set(root) == {"spans", "condition-1"}
    assert set(outer["tasks"]) == {
        "example-gen",
        "statistics-gen",
        "schema-gen",
        "example-validator",
        "data-gate",
        "drift",
        "condition-2",
    }
    assert {"transform", "trainer", "record-training"} <= set(inner["tasks"])
    conditions = [
        tasks[name]["triggerPolicy"]["condition"]
        for tasks, name in ((root, "condition-1"), (outer["tasks"], "condition-2"))
    ]
    assert conditions == [
        "inputs.parameter_values['pipelinechannel--spans-go'] != 'no'",
        "inputs.parameter_values['pipelinechannel--drift-go'] != 'no'",
    ]


def test_the_server_sees_the_tasks_of_all_groups_each_after_what_it_needs(
    compiled: tuple[str, dict[str, Any]],
) -> None:
    tasks = flat_graph(compiled[1])
    assert set(tasks) == set(all_tasks(compiled[1]))
    assert "spans" in tasks["example-gen"]["dependentTasks"]
    assert "drift" in tasks["transform"]["dependentTasks"]
    assert all(
        not task["cachingOptions"] for task in flat_graph(next(yaml.safe_load_all(without_cache(compiled[0])))).values()
    )


def test_parameters_of_a_run_reach_the_task_that_uses_them_and_no_other(
    compiled: tuple[str, dict[str, Any]],
) -> None:
    pipeline = compiled[1]
    reported = pipeline["root"]["inputDefinitions"]["parameters"]
    assert {name: one["defaultValue"] for name, one in reported.items()} == {
        "run_date": "",
        "spans": "",
        "epochs": 0,
        "steps_per_epoch": 0,
        "retrain": "drift",
    }
    taken = {
        name: {
            one["componentInputParameter"].removeprefix("pipelinechannel--")
            for one in spec.task.get("inputs", {}).get("parameters", {}).values()
            if "componentInputParameter" in one
        }
        & set(reported)
        for name, spec in all_tasks(pipeline).items()
    }
    assert {name: found for name, found in taken.items() if found} == {
        "spans": {"run_date", "spans", "retrain"},
        "trainer": {"epochs", "steps_per_epoch"},
    }
    constants = pipeline["root"]["dag"]["tasks"]["spans"]["inputs"]["parameters"]
    assert constants["scheduled_time"] == {"runtimeValue": {"constant": "{{$.pipeline_job_schedule_time_utc}}"}}
    assert constants["time_zone"] == {"runtimeValue": {"constant": "America/New_York"}}


ONLY = "predict={source: {kind: csv, path: '/new/%s.csv'}, output: scored.csv, only: true}"


def test_a_pipeline_that_only_predicts_has_a_name_a_day_and_a_schedule_of_its_own(folder: Path) -> None:
    days = config(folder, "new_span", ONLY % "{YYYY}-{MM}-{DD}")
    pipeline = next(yaml.safe_load_all(compile_pipeline(days, {})))
    assert {*pipeline["root"]["inputDefinitions"]["parameters"]} == {"run_date"}
    inputs = {name: one.task.get("inputs", {}).get("parameters", {}) for name, one in all_tasks(pipeline).items()}
    assert {name for name, found in inputs.items() if "run_date" in found} == {"predict-spans"}
    given = pipeline["root"]["dag"]["tasks"]["predict-spans"]["inputs"]["parameters"]
    assert given["time_zone"] == {"runtimeValue": {"constant": "America/New_York"}}
    assert pipeline["pipelineInfo"]["name"] == "trips"  # which names the folder with the list of blessed models
    assert (days.full_name, config(folder).full_name) == ("trips-predict", "trips")
    undated = config(folder, "new_span", ONLY % "today")
    assert offered(undated) == ()
    for one, as_of in ((days, "scheduled"), (undated, "newest")):
        assert one.schedule is not None
        wanted = applicable(one, one.schedule.model_copy(update={"window": 3}))
        assert (wanted.cron, wanted.window, wanted.as_of) == ("0 5 * * *", None, as_of)


def test_first_task_is_the_one_that_needs_no_tensorflow(compiled: tuple[str, dict[str, Any]]) -> None:
    spans = all_tasks(compiled[1])["spans"]
    assert json.loads(unpack(spans.container["args"][1]))["executor"] == SPANS_EXECUTOR
    program = "import sys, headrace.pipeline.kubeflow.run_component; print([*{'tensorflow', 'tfx'} & {*sys.modules}])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_scheduled_day_is_that_of_the_schedules_time_zone() -> None:
    properties = {"data": json.dumps({"source": {"kind": "csv", "path": "/d/{YYYY}-{MM}-{DD}.csv"}})}

    def day(**reported: str) -> Any:
        return json.loads(with_parameters("Spans", properties, reported)["data"]).get("run_date")

    night = {"run_date": "scheduled", "scheduled_time": "2026-11-21T03:30:00Z"}
    assert day(**night, time_zone="America/New_York") == "2026-11-20"
    assert day(**night, time_zone="UTC") == "2026-11-21"
    assert day(run_date="2026-11-19", scheduled_time="2026-11-21T03:30:00Z") == "2026-11-19"
    assert day(run_date="", scheduled_time="2026-11-21T03:30:00Z") is None
    for nothing in ("", "{{$.pipeline_job_schedule_time_utc}}"):
        with pytest.raises(RunError, match=r"run_date is scheduled, .*\n.*Kubeflow Pipelines 2\.17"):
            day(run_date="scheduled", scheduled_time=nothing)


def test_a_run_date_hides_later_days_less_the_delay(folder: Path) -> None:
    for day in ("2026-11-18", "2026-11-19", "2026-11-21"):
        (folder / f"{day}.csv").write_text("fare,tip\n1.5,0\n")

    def found(*overrides: str) -> list[str]:
        return [span.name for span in find_spans(config(folder, "always", *overrides).data).spans]

    assert found() == ["2026-11-20", "2026-11-21"]
    assert found("data.run_date=2026-11-20") == ["2026-11-19", "2026-11-20"]
    assert found("data.run_date=2026-11-20", "data.delay=1") == ["2026-11-18", "2026-11-19"]
    assert found("data.run_date=2026-11-30") == ["2026-11-20", "2026-11-21"]
    with pytest.raises(Exception, match="no span up to 2026-11-01"):
        found("data.run_date=2026-11-01")


@pytest.mark.parametrize(
    ("overrides", "reported"),
    [
        (["kubeflow.backend='2.16'"], "requires Kubeflow Pipelines 2.17"),
        (["schedule.pinned=false"], "only pinned schedules"),
        (["kubeflow.parameters=[epochs]"], "`run_date` to kubeflow.parameters"),
        (["data.source.path=/d/{SPAN}/*.csv"], "{YYYY}, {MM} and {DD}"),
        (["data.run_date=2026-02-30"], "2026-02-30 is not a date"),
        (["schedule.drift={columns: {fair: 0.1}}"], 'did you mean "fare"?'),
    ],
)
def test_what_cannot_be_is_refused_when_the_config_is_read(folder: Path, overrides: list[str], reported: str) -> None:
    with pytest.raises(ConfigError) as error:
        config(folder, "drift", *overrides)
    assert reported in str(error.value)


def test_values_of_a_run_have_their_types_and_the_root_is_one_of_them(folder: Path) -> None:
    found = run_values(config(folder), ["epochs=3", "retrain=always", "pipeline_root=gs://bucket/a"])
    assert found.parameters == {"epochs": 3, "retrain": "always"}
    assert found.root == "gs://bucket/a"
    assert run_values(config(folder), []).root == "minio://mlpipeline/v2/artifacts"
    assert run_values(config(folder), ["run_date=scheduled"]).parameters == {"run_date": "scheduled"}
    with pytest.raises(ConfigError) as error:
        run_values(config(folder), ["pipeline_root=/tmp", "retrain=often", "run_date=2026-13-99"])
    for reported in ("--param pipeline_root", "use one of always", "2026-13-99 is not a date"):
        assert reported in str(error.value)
    with pytest.raises(RunError, match="no task that detects drift"):
        with_parameters("Spans", {"retrain": "new_span"}, {"retrain": "drift"})


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("spans=banana", "banana is not a number, "),
        ("spans=2026-13-77", "2026-13-77 is not a date"),
        ("spans=2026-11-20..2026-11-01", "after its end"),
        ("spans=1..2..3", "1..2..3 is not a number, "),
        ("window=0", "0 is not an integer "),
        ("epochs=-1", "epochs must be a number"),
        ("retrain=drift", "no task that detects drift"),
    ],
)
def test_a_value_that_the_pods_would_refuse_is_refused_before_it_is_sent(folder: Path, given: str, what: str) -> None:
    chosen = config(folder, "new_span", 'kubeflow.parameters=["spans", "window", "epochs", "run_date"]')
    with pytest.raises(ConfigError) as error:
        run_values(chosen, [given])
    assert f"--param {given.partition('=')[0]}" in str(error.value)
    assert what in str(error.value)
    fine = ["spans=2026-11-01..2026-11-20", "window=all", "epochs=0", "retrain=new_span"]
    assert run_values(chosen, fine).parameters == {
        "spans": "2026-11-01..2026-11-20",
        "window": "all",
        "epochs": 0,
        "retrain": "new_span",
    }
    assert run_values(chosen, ["spans="]).parameters == {"spans": ""}


def test_pods_that_look_at_what_was_trained_on_have_it_the_stores_keys_and_for_drift_the_statistics(
    folder: Path,
) -> None:
    text = compile_pipeline(config(folder, "drift", "kubeflow.object_store.secret=keys"), {})
    platform = list(yaml.safe_load_all(text))[1]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    looking = {name for name, one in platform.items() if "secretAsEnv" in one}
    assert {"exec-spans", "exec-drift", "exec-record-training"} <= looking
    assert not {"exec-data-gate", "exec-schema-gen", "exec-example-validator"} & looking
    store, paths = Store({}, str(folder / "store")), PodPaths(str(folder / "pod"))
    home = paths.local("minio://bucket/trips")
    data = TrainingData(fingerprint="f", spans=("a",), work="w", statistics=str(home / "run/statistics"))
    TrainingRecord().with_judged(data, blessed=True).write(home / "trained.json")
    there = folder / "store/minio/bucket/trips"
    (there / "run/statistics/Split-train").mkdir(parents=True)
    (home / "trained.json").rename(there / "trained.json")
    (there / "run/statistics/Split-train/FeatureStats.pb").write_text("sums")
    properties = {"trained": str(home / "trained.json")}
    with present(properties, paths, store):
        assert TrainingRecord.read(home / "trained.json").blessed == data
        assert not (home / "run").exists()
    with present({**properties, "columns": "[]"}, paths, store):
        assert (home / "run/statistics/Split-train/FeatureStats.pb").read_text() == "sums"
        later = data.model_copy(update={"spans": ("b",)})
        update(home / "trained.json", lambda now: now.with_judged(later, blessed=False))
    found = json.loads((there / "trained.json").read_text())
    assert (found["judged"]["spans"], found["blessed"]["spans"]) == (["b"], ["a"])


def test_a_condition_of_another_form_is_not_guessed_at() -> None:
    spec = TaskSpec("condition-1", {"triggerPolicy": {"condition": "1 < 2"}}, {}, {})
    with pytest.raises(RunError, match=r"condition .* 1 < 2"):
        condition_holds(spec, {"parameterValues": {}})


@pytest.mark.slow
@pytest.mark.usefixtures("forked_pods")
def test_without_anything_new_all_but_the_look_is_skipped(folder: Path) -> None:
    """One task runs, in a pod of its own; and with `retrain: always` the same decision lets the run continue."""
    reported = config(folder, "new_span")
    pipeline = next(yaml.safe_load_all(compile_pipeline(reported, {})))
    cluster = Cluster(folder / "cluster", "minio://bucket")
    home = cluster.path("minio://bucket/trips")
    found = find_spans(reported.data)
    last = TrainingData(
        fingerprint=found.fingerprint, spans=("2026-11-20",), work=training_digest(reported), statistics=str(home / "s")
    )
    TrainingRecord().with_judged(last, blessed=True).write(home / "trained.json")
    run = cluster.run(yaml.safe_dump(pipeline))
    assert set(run.tasks) == {"spans"}
    assert run.skipped == set(all_tasks(pipeline)) - {"spans"}
    assert run.tasks["spans"].parameters["go"] == "no"
    assert run.tasks["spans"].parameters["spans"] == found.to_json()
    assert run.tasks["spans"].parameters["why"].startswith("nothing new")
    lines = {line.component: line for line in compared(reported, local("Spans"), run.tasks, cluster.path)}
    assert {line.what for name, line in lines.items() if name != "Spans"} == {"skipped in both"}
    assert all(line.same for line in lines.values())
    lines = {line.component: line for line in compared(reported, local("Spans", "Trainer"), run.tasks, cluster.path)}
    assert str(lines["Trainer"]) == "DIFFERENT Trainer: ran here, skipped there"
    lines = {line.component: line for line in compared(reported, local(), run.tasks, cluster.path)}
    assert str(lines["Spans"]) == "DIFFERENT Spans: skipped here, ran there"


def local(*ran: str) -> RunRecord:
    """What is known of a run of which these components ended, and left nothing."""
    nodes = [NodeRecord(name, status=Status.DONE) for name in ran]
    return RunRecord("run", "trips", "trips.yaml", 0, nodes=[*nodes, NodeRecord("Drift", status=Status.SKIPPED)])


def test_trees_have_no_parameters_for_epochs(folder: Path) -> None:
    assert {"epochs", "steps_per_epoch"} <= set(offered(config(folder)))
    assert not {"epochs", "steps_per_epoch"} & set(offered(config(folder, "drift", "model={kind: trees}")))
