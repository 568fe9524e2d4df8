"""`deploy.registry` in real runs, here and in pods, against MLflow's own server and a stand-in for Kubeflow Model
Registry.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import Finished, headrace
from mlflow_server import AUTHORIZATION, MlflowServer, mlflow_server
from model_registry import Registry, model_registry
from parcels import write_parcels
from secret_pods import secret_pods

from headrace.components.evaluation.result import read_evaluation
from headrace.configs.schema.model_registry import MlflowRegistry, ModelRegistries
from headrace.pipeline.kubeflow.document import all_tasks
from headrace.pipeline.kubeflow.verify.cluster import Cluster, ClusterRun
from headrace.pipeline.registration.register import RegistrationOutcome, register
from headrace.pipeline.registration.versions import PushedVersion, Shelf, State

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data: {source: {kind: csv, path: "parcels-{SPAN}.csv"}}
label: {key: late, kind: binary}
features: {distance: {column: numeric}, hours: {column: numeric}}
model: {kind: dnn, hidden: [4]}
train: {epochs: 2, steps_per_epoch: 20, batch_size: 64}
evaluate: {metrics: [auc], better_than_constant: false}
deploy:
  canary: null
  registry:
    mlflow: {url: "%s", authorization_env: MLFLOW_AUTHORIZATION}
    kubeflow: {url: "%s", authorization_env: REGISTRY_TOKEN}
"""
SECRET = "Bearer x9Yz8Wv7Ut6Sr5Qp4x9Yz8Wv7Ut6Sr5Qp4"
TOKENS = {"REGISTRY_TOKEN": SECRET, "MLFLOW_AUTHORIZATION": AUTHORIZATION}
CHANGED = ("--set", "train.steps_per_epoch=30", "--set", "deploy.approval=manual")


@dataclass(frozen=True)
class Story:
    """A run while MLflow is away, the same again, a run whose model is promoted, a rollback, and the first run again.

    after: by what was done, MLflow's alias and the states of its versions.
    """

    folder: Path
    mlflow: MlflowServer
    kubeflow: Registry
    away: Finished
    first: Finished
    waiting: Finished
    promotion: Finished
    back: Finished
    again: Finished
    after: dict[str, tuple[str, dict[str, str]]]


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as server:
        yield server


@pytest.fixture(scope="module")
def story(mlflow: MlflowServer, new_folder: Callable[[str], Path]) -> Iterator[Story]:
    folder = new_folder("registration")
    write_parcels(folder / "parcels-1.csv", 200)
    after: dict[str, tuple[str, dict[str, str]]] = {}

    def done(name: str, *arguments: str) -> Finished:
        one = headrace(folder, arguments[0], "parcels.yaml", *arguments[1:], **TOKENS)
        found = mlflow.versions("parcels")
        states = {each["tags"]["headrace.version"]: each["tags"]["headrace.state"] for each in found.values()}
        after[name] = (found[mlflow.alias("parcels")]["tags"]["headrace.version"] if found else "", states)
        return one

    with model_registry(token=SECRET) as kubeflow:
        (folder / "parcels.yaml").write_text(CONFIG % (mlflow.url, kubeflow.url))
        steps = {
            "away": done("away", "run", "--set", "deploy.registry.mlflow.url=http://127.0.0.1:1"),
            "first": done("first", "run"),
            "waiting": done("waiting", "run", *CHANGED),
            "promotion": done("promotion", "promote", "--json", *CHANGED),
            "back": done("back", "rollback"),
            "again": done("again", "run"),
        }
        yield Story(folder, mlflow, kubeflow, **steps, after=after)


def pushed(story: Story) -> list[str]:
    return sorted((path.name for path in (story.folder / "serving/parcels").iterdir()), key=int)


def test_run_whose_registry_is_away_pushes_and_says_so(story: Story) -> None:
    assert story.away.code == 0, story.away.out + story.away.err
    first = pushed(story)[0]
    assert story.away.ending("pushed") == f"serving/parcels/{first}"
    told = story.away.out + story.away.err
    assert "deploy.registry.mlflow: the versions in" in told
    assert "127.0.0.1:1 cannot be reached" in told
    assert story.away.ending("registry") == f"kubeflow has version {first} of parcels"
    assert story.after["away"] == ("", {})


def test_next_run_registers_what_is_missing_although_it_pushes_nothing(story: Story) -> None:
    first = pushed(story)[0]
    assert story.first.statuses()["Pusher"] == "cached"
    assert story.first.ending("registry") == f"mlflow has version {first} of parcels"
    assert story.after["first"] == (first, {first: "in_service"})


def test_promotion_and_rollback_move_the_alias(story: Story) -> None:
    assert [one.code for one in (story.waiting, story.promotion, story.back)] == [0, 0, 0]
    first, second, third = pushed(story)
    assert story.after["waiting"] == story.after["first"]
    promoted = (second, {first: "superseded", second: "in_service"})
    assert story.after["promotion"] == promoted, story.promotion.out + story.promotion.err
    states = {first: "superseded", second: "withdrawn", third: "in_service"}
    assert story.after["back"] == (third, states)
    assert story.kubeflow.texts("parcels", "headrace.state") == states
    assert {name: one["state"] for name, one in story.kubeflow.versions("parcels").items()} == {
        first: "LIVE",
        second: "ARCHIVED",
        third: "LIVE",
    }


def test_run_after_that_changes_nothing(story: Story) -> None:
    assert story.again.code == 0
    assert story.after["again"] == story.after["back"]
    assert not [line for line in story.again.lines if line.startswith("registry")]


def test_version_leads_to_the_run_with_its_metrics_curves_and_settings(story: Story) -> None:
    found = story.mlflow.versions("parcels")
    by_number = {one["tags"]["headrace.version"]: one for one in found.values()}
    first, second, third = pushed(story)
    assert by_number[first]["run_id"] == by_number[third]["run_id"]  # the same model
    for number, done in ((first, story.away), (second, story.waiting)):
        version = by_number[number]
        run = story.mlflow.get("runs/get", run_id=version["run_id"])["run"]
        assert (run["info"]["run_name"], run["info"]["status"]) == (done.run.run_id, "FINISHED")
        measured = {(one["key"], one["step"]): one["value"] for one in run["data"]["metrics"]}
        assert measured["auc", 0] == read_evaluation(done.uri("Evaluator", "evaluation")).metrics["auc"]
        history = json.loads((done.uri("Trainer", "model_run") / "training.json").read_text())
        for key in ("loss", "val_loss"):
            listed = story.mlflow.get("metrics/get-history", run_id=version["run_id"], metric_key=f"training/{key}")
            curve = {one["step"]: one["value"] for one in listed["metrics"]}
            assert curve == {epoch["epoch"]: epoch["metrics"][key] for epoch in history["epochs"]}
        params = {one["key"]: one["value"] for one in run["data"]["params"]}
        assert params["train.steps_per_epoch"] == ("20" if number == first else "30")
        assert (params["model.kind"], params["model.hidden"]) == ("dnn", "[4]")


def test_facts_are_those_of_lineage(story: Story) -> None:
    listed = json.loads(headrace(story.folder, "lineage", "parcels.yaml", pushed(story)[1], "--json").out)
    (origin,) = listed["origins"]
    tags = next(
        one["tags"]
        for one in story.mlflow.versions("parcels").values()
        if one["tags"]["headrace.version"] == pushed(story)[1]
    )
    kubeflow: dict[str, Any] = story.kubeflow.versions("parcels")[pushed(story)[1]]["customProperties"]
    expected = {
        "headrace.run": origin["model"]["run"],
        "headrace.config_digest": origin["config_digest"],
        "headrace.code_digest": origin["code_digest"],
        "headrace.data_fingerprint": origin["fingerprint"],
        "headrace.spans": "1 (1)",
        "headrace.rows.train": str(origin["rows"]["train"]),
        "headrace.model": origin["model"]["path"],
        "headrace.destination": str(story.folder / "serving/parcels"),
    }
    assert {name: tags[name] for name in expected} == expected
    assert {name: kubeflow[name]["string_value"] for name in expected} == expected


def test_mlflows_client_fetches_the_files_in_service(story: Story, tmp_path: Path) -> None:
    story.mlflow.download("models:/parcels@champion", tmp_path)
    served = story.folder / "serving/parcels" / pushed(story)[-1]
    files = {path.relative_to(served): path.read_bytes() for path in served.rglob("*") if path.is_file()}
    assert {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
    run = next(iter(story.mlflow.versions("parcels").values()))["run_id"]
    listed = story.mlflow.get("artifacts/list", run_id=run)["files"]
    assert {one["path"] for one in listed} == {"model", "model_card.html", "model_card.md"}


def test_version_that_others_can_read_is_named_by_its_uri_and_nothing_is_copied(mlflow: MlflowServer) -> None:
    at, states = "s3://bucket/root/pod/serving/pod", dict[int, State]()

    def describe(one: int) -> PushedVersion:
        settings = {"features.tip $%": str(one), "features.tip %$": "numeric", "features.tip __": "hashed"}
        facts = {"version": str(one)}
        return PushedVersion(one, f"run-{one}", f"{at}/{one}", states[one], facts=facts, settings=settings)

    server = MlflowRegistry(
        url=mlflow.url, authorization_env="MLFLOW_AUTHORIZATION", alias="serving", model="of-{name}"
    )
    settings = ModelRegistries(mlflow=server)
    for now in ({1: "in_service"}, {1: "superseded", 2: "in_service"}, {2: "superseded", 3: "in_service"}):
        states.update(now)  # type: ignore[arg-type]
        (outcome,) = register(settings, "pod", Shelf(at, dict(now), describe), TOKENS)  # type: ignore[arg-type]
        assert outcome == RegistrationOutcome("mlflow", "of-pod", (max(now),))
    found = mlflow.versions("of-pod")
    assert {number: one["source"] for number, one in found.items()} == {number: f"{at}/{number}" for number in "123"}
    told = {number: one["tags"]["headrace.state"] for number, one in found.items()}
    assert told == {"1": "removed", "2": "superseded", "3": "in_service"}
    assert mlflow.alias("of-pod", "serving") == "3"
    assert "files" not in mlflow.get("artifacts/list", run_id=found["3"]["run_id"])
    params = {
        one["key"]: one["value"] for one in mlflow.get("runs/get", run_id=found["2"]["run_id"])["run"]["data"]["params"]
    }
    assert params.pop("features.tip __") == "hashed"
    assert sorted(params.values()) == ["2", "numeric"]
    assert all(key.startswith("features.tip __-") for key in params)


def test_validate_notes_a_token_that_is_not_set(story: Story) -> None:
    done = headrace(story.folder, "validate", "parcels.yaml", MLFLOW_AUTHORIZATION=AUTHORIZATION)
    assert done.code == 0
    assert re.search(r"note: deploy\.registry\.kubeflow .*REGISTRY_TOKEN is not set", done.err)
    assert "deploy.registry.mlflow" not in done.err


def test_token_is_nowhere(story: Story) -> None:
    for done in (story.away, story.first, story.promotion, story.back, story.again):
        assert not [token for token in TOKENS.values() if token in done.out + done.err]
    assert_without_tokens(story.folder / "runs")


def assert_without_tokens(folder: Path) -> None:
    for file in (path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        assert not [token for token in TOKENS.values() if token.encode() in content], file


PODS = """\
deploy:
  canary: null
  registry: {mlflow: {url: "%s", authorization_env: MLFLOW_AUTHORIZATION}}
kubeflow:
  image: registry.example/headrace:1
  pipeline_root: minio://mlpipeline/v2/artifacts
  components:
    Pusher: {secrets: [{name: registry, env: {MLFLOW_AUTHORIZATION: authorization}}]}
"""
PODS_HOME = "minio://mlpipeline/v2/artifacts/pods"


@dataclass(frozen=True)
class InPods:
    """A run whose Secret has expired, and one that trains longer, after somebody set another."""

    folder: Path
    cluster: Cluster
    expired: ClusterRun
    second: ClusterRun
    missing: dict[str, dict[str, Any]]
    """What MLflow knew after the first run."""

    def log(self, run: ClusterRun, task: str) -> str:
        return self.cluster.path(run.tasks[task].artifacts["executor-logs"]["uri"]).read_text()

    @property
    def versions(self) -> list[str]:
        return sorted(name for name in self.cluster.store.children(f"{PODS_HOME}/serving/pods") if name.isdecimal())


@pytest.fixture(scope="module")
def in_pods(mlflow: MlflowServer, new_folder: Callable[[str], Path]) -> InPods:
    folder = new_folder("registration_pods")
    write_parcels(folder / "parcels-1.csv", 200)
    config = CONFIG.partition("deploy:")[0].replace("name: parcels", "name: pods") + PODS % mlflow.url
    (folder / "pods.yaml").write_text(config.replace("parcels-{SPAN}", f"{folder}/parcels-{{SPAN}}"))
    for arguments in ("init -q", "add pods.yaml", "-c user.name=a -c user.email=b commit -qm1"):
        subprocess.run(["git", *arguments.split()], cwd=folder, check=True)
    done = headrace(folder, "compile", "pods.yaml", "-o", "compiled.yaml", **TOKENS)
    assert done.code == 0, done.out + done.err
    text, there = (folder / "compiled.yaml").read_text(), Cluster(folder / "cluster", PODS_HOME.rpartition("/")[0])
    with secret_pods(text, {"registry": {"authorization": f"{AUTHORIZATION}x"}}):
        expired = there.run(text)
    missing = mlflow.versions("pods")
    with secret_pods(text, {"registry": {"authorization": AUTHORIZATION}}):
        return InPods(folder, there, expired, there.run(text, {"epochs": 3}), missing)


def test_pod_whose_secret_has_expired_pushes_and_says_what_to_check(in_pods: InPods) -> None:
    assert in_pods.expired.tasks["pusher"].artifacts["pushed_model"]["metadata"]["pushed"] == 1
    assert in_pods.missing == {}
    log = in_pods.log(in_pods.expired, "pusher")
    assert "deploy.registry.mlflow: the versions in s3://mlpipeline/v2/artifacts/pods/serving/pods are not all" in log
    assert "check the header in MLFLOW_AUTHORIZATION" in log


def test_next_pod_registers_both_versions_with_the_metrics_of_their_runs(in_pods: InPods, mlflow: MlflowServer) -> None:
    found = {one["tags"]["headrace.version"]: one for one in mlflow.versions("pods").values()}
    first, second = in_pods.versions
    assert found.keys() == {first, second}
    assert f"registry: mlflow has version {first}, {second} of pods" in in_pods.log(in_pods.second, "pusher")
    states = {number: one["tags"]["headrace.state"] for number, one in found.items()}
    assert states == {first: "superseded", second: "in_service"}
    assert mlflow.alias("pods") == found[second]["version"]
    for number, done in ((first, in_pods.expired), (second, in_pods.second)):
        assert found[number]["source"] == f"s3://mlpipeline/v2/artifacts/pods/serving/pods/{number}"
        run = mlflow.get("runs/get", run_id=found[number]["run_id"])["run"]
        model = done.tasks["trainer"].artifacts["model"]["uri"]
        assert (run["info"]["run_name"], run["info"]["status"]) == (model.split("/")[-4], "FINISHED")
        measured = {one["key"]: one["value"] for one in run["data"]["metrics"]}
        evaluation = in_pods.cluster.path(done.tasks["evaluator"].artifacts["evaluation"]["uri"])
        assert measured == read_evaluation(evaluation).metrics
        assert "params" not in run["data"]
        assert "files" not in mlflow.get("artifacts/list", run_id=found[number]["run_id"])


def test_facts_from_a_pod_are_those_of_lineage(in_pods: InPods, mlflow: MlflowServer) -> None:
    store = {"HEADRACE_STORE": str(in_pods.cluster.store_folder)}
    listed = json.loads(
        headrace(in_pods.folder, "lineage", "pods.yaml", in_pods.versions[0], "--kubeflow", "--json", **store).out
    )
    (origin,) = listed["origins"]
    (tags,) = (
        one["tags"]
        for one in mlflow.versions("pods").values()
        if one["tags"]["headrace.version"] == in_pods.versions[0]
    )
    expected = {
        "headrace.run": origin["model"]["run"],
        "headrace.commit": origin["model"]["commit"],
        "headrace.config_digest": origin["config_digest"],
        "headrace.code_digest": origin["code_digest"],
        "headrace.data_fingerprint": origin["fingerprint"],
        "headrace.spans": "1 (1)",
        "headrace.trained_at": f"{origin['model']['trained'][:19]}+00:00",
        "headrace.blessed_at": origin["model"]["blessed_at"],
        **{f"headrace.rows.{split}": str(count) for split, count in origin["rows"].items()},
        "headrace.model": in_pods.expired.tasks["trainer"].artifacts["model"]["uri"],
    }
    assert {name: tags.get(name) for name in expected} == expected
    assert sum(origin["rows"].values()) == 200


def test_token_of_a_pod_is_only_in_the_secret(in_pods: InPods) -> None:
    first, second = yaml.safe_load_all((in_pods.folder / "compiled.yaml").read_text())
    assert "MLFLOW_AUTHORIZATION" in str(second)
    executors = second["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert [name for name, one in executors.items() if "'registry'" in str(one)] == ["exec-pusher"]
    variables = [one for each in all_tasks(first).values() for one in each.container.get("env", [])]
    assert "MLFLOW_AUTHORIZATION" not in {one["name"] for one in variables}
    assert_without_tokens(in_pods.folder)
