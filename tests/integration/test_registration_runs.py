"""`deploy.registry` in real runs, against MLflow's own server and a stand-in for Kubeflow Model Registry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import Finished, headrace
from mlflow_server import MlflowServer, mlflow_server
from model_registry import Registry, model_registry
from parcels import write_parcels

from headrace.components.evaluation.result import read_evaluation
from headrace.configs.schema.model_registry import MlflowRegistry, ModelRegistries
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
    mlflow: {url: "%s"}
    kubeflow: {url: "%s", authorization_env: REGISTRY_TOKEN}
"""
SECRET = "Bearer x9Yz8Wv7Ut6Sr5Qp4x9Yz8Wv7Ut6Sr5Qp4"
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
        one = headrace(folder, arguments[0], "parcels.yaml", *arguments[1:], REGISTRY_TOKEN=SECRET)
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

    settings = ModelRegistries(mlflow=MlflowRegistry(url=mlflow.url, alias="serving", model="of-{name}"))
    for now in ({1: "in_service"}, {1: "superseded", 2: "in_service"}, {2: "superseded", 3: "in_service"}):
        states.update(now)  # type: ignore[arg-type]
        (outcome,) = register(settings, "pod", Shelf(at, dict(now), describe), {})  # type: ignore[arg-type]
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
    done = headrace(story.folder, "validate", "parcels.yaml")
    assert done.code == 0
    assert "note: deploy.registry.kubeflow would get no versions: REGISTRY_TOKEN is not set" in done.err
    assert "deploy.registry.mlflow" not in done.err


def test_token_is_nowhere(story: Story) -> None:
    for done in (story.away, story.first, story.promotion, story.back, story.again):
        assert SECRET not in done.out + done.err
    for file in (story.folder / "runs").rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file
