"""`deploy.registry.kubeflow` against the own server of Kubeflow Model Registry, and the stand-in against it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import Finished, headrace
from go_programs import BuildError
from model_registry import model_registry
from parcels import write_parcels
from registry_server import API, Programs, RegistryServer, build, registry_server

from headrace.components.evaluation.result import read_evaluation
from headrace.configs.schema.model_registry import KubeflowRegistry, ModelRegistries
from headrace.pipeline.registration.register import RegistrationOutcome, register
from headrace.pipeline.registration.versions import PushedVersion, Shelf, State

pytestmark = pytest.mark.slow

CONFIG = """\
pipeline: {name: parcels}
data: {source: {kind: csv, path: "parcels-{SPAN}.csv"}}
label: {key: late, kind: binary}
features: {distance: {column: numeric}, hours: {column: numeric}}
model: {kind: dnn, hidden: [4]}
train: {epochs: 1, steps_per_epoch: 20, batch_size: 64}
evaluate: {metrics: [auc], better_than_constant: false}
deploy: {keep: 2, canary: null, registry: {kubeflow: {url: "%s"}}}
"""
AT = "s3://models/taxi"
ODD = {"metric.auc": 0.1 + 0.2, "quoted": 'é "quotes" \\ and\nlines; drop table Context', "long": "x" * 5000}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    try:
        return build(tmp_path_factory.mktemp("registry"))
    except BuildError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def server(programs: Programs) -> Iterator[RegistryServer]:
    with registry_server(programs) as server:
        yield server


@dataclass(frozen=True)
class Story:
    """Two runs that push, a rollback, which pushes a third version so that `keep` removes the first, and a last run.

    after: the states of the versions, by what was done.
    """

    folder: Path
    first: Finished
    second: Finished
    back: Finished
    again: Finished
    after: dict[str, dict[str, str | None]]


@pytest.fixture(scope="module")
def story(server: RegistryServer, new_folder: Callable[[str], Path]) -> Story:
    folder = new_folder("registered")
    write_parcels(folder / "parcels-1.csv", 200)
    (folder / "parcels.yaml").write_text(CONFIG % server.url)
    after: dict[str, dict[str, str | None]] = {}

    def done(name: str, verb: str, *options: str) -> Finished:
        one = headrace(folder, verb, "parcels.yaml", *options)
        assert one.code == 0, one.out + one.err
        after[name] = server.texts("parcels", "headrace.state")
        return one

    steps = {
        "first": done("first", "run"),
        "second": done("second", "run", "--set", "train.steps_per_epoch=30"),
        "back": done("back", "rollback"),
        "again": done("again", "run", "--set", "train.steps_per_epoch=30"),
    }
    return Story(folder, **steps, after=after)


def test_pushes_a_rollback_and_a_removal_are_noted(story: Story, server: RegistryServer) -> None:
    first, second, third = sorted(story.after["again"], key=lambda name: int(name or 0))
    assert story.first.ending("registry") == f"kubeflow has version {first} of parcels"
    assert story.after["first"] == {first: "in_service"}
    assert story.after["second"] == {first: "superseded", second: "in_service"}
    assert story.after["back"] == {first: "removed", second: "withdrawn", third: "in_service"}
    states = {name: one["state"] for name, one in server.versions("parcels").items()}
    assert states == {first: "ARCHIVED", second: "ARCHIVED", third: "LIVE"}


def test_run_after_that_changes_nothing(story: Story) -> None:
    assert story.after["again"] == story.after["back"]
    assert not [line for line in story.again.lines if line.startswith("registry")]
    assert "not all registered" not in story.again.out + story.again.err


def test_version_has_metrics_facts_and_an_artifact(story: Story, server: RegistryServer) -> None:
    second = sorted(story.after["again"], key=lambda name: int(name or 0))[1]
    listed = json.loads(headrace(story.folder, "lineage", "parcels.yaml", second, "--json").out)
    (origin,) = listed["origins"]
    properties = server.versions("parcels")[second]["customProperties"]
    assert (
        properties["metric.auc"]["double_value"]
        == (read_evaluation(story.second.uri("Evaluator", "evaluation")).metrics["auc"])
    )
    expected = {"run": origin["model"]["run"], "code_digest": origin["code_digest"], "spans": "1 (1)"}
    assert {name: properties[f"headrace.{name}"]["string_value"] for name in expected} == expected
    (artifact,) = server.artifacts("parcels")[second]
    assert artifact["uri"] == (story.folder / "serving/parcels" / second).as_uri()
    assert (artifact["artifactType"], artifact["modelFormatName"]) == ("model-artifact", "tensorflow")


def registered(
    server: RegistryServer, model: str, states: dict[int, State], at: str = AT, **settings: Any
) -> RegistrationOutcome:
    """What became of versions, whose facts have odd texts."""

    def describe(one: int) -> PushedVersion:
        facts = {"version": str(one), **{name: text for name, text in ODD.items() if isinstance(text, str)}}
        metrics = {name: value for name, value in ODD.items() if isinstance(value, float)}
        return PushedVersion(one, "runs/1", f"{at}/{one}", states[one], metrics=metrics, facts=facts)

    registries = ModelRegistries(kubeflow=KubeflowRegistry(url=server.url, model=model, **settings))
    (outcome,) = register(registries, "taxi", Shelf(at, dict(states), describe), {})
    return outcome


def test_lists_in_pages_are_read_to_their_end(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.pipeline.registration.kubeflow._PAGE", 2)
    states: dict[int, State] = {**dict.fromkeys(range(1, 5), "superseded"), 5: "in_service"}
    assert registered(server, "paged", states).added == (1, 2, 3, 4, 5)
    assert registered(server, "paged", states) == RegistrationOutcome("kubeflow", "paged")
    assert len(server.versions("paged")) == 5


def test_odd_texts_and_numbers_arrive_as_they_are(server: RegistryServer) -> None:
    assert registered(server, "odd-facts", {1: "in_service"}).error is None
    properties = server.versions("odd-facts")["1"]["customProperties"]
    assert properties["headrace.quoted"]["string_value"] == ODD["quoted"]
    assert properties["headrace.long"]["string_value"] == ODD["long"]
    assert properties["metric.metric.auc"]["double_value"] == ODD["metric.auc"]


def test_version_left_without_an_artifact_is_completed(server: RegistryServer) -> None:
    assert registered(server, "begun", {1: "in_service"}).added == (1,)
    model = server.get("registered_model", name="begun")["id"]
    properties = {"headrace.destination": {"metadataType": "MetadataStringValue", "string_value": AT}}
    begun = {"name": "2", "registeredModelId": model, "customProperties": properties}
    assert server.answer("POST", f"{API}/model_versions", begun)[0] == 201
    assert registered(server, "begun", {1: "superseded", 2: "in_service"}).added == (2,)
    assert [len(found) for found in server.artifacts("begun").values()] == [1, 1]
    assert server.texts("begun", "headrace.state") == {"1": "superseded", "2": "in_service"}


def test_version_of_another_folder_is_left_alone(server: RegistryServer) -> None:
    registered(server, "shared", {1: "in_service"}, at="s3://elsewhere/taxi")
    clash = registered(server, "shared", {1: "superseded", 2: "in_service"})
    assert clash.added == (2,)
    assert "another folder" in (clash.error or "")
    assert server.texts("shared", "headrace.state") == {"1": "in_service", "2": "in_service"}


def test_server_without_that_api_is_named(server: RegistryServer) -> None:
    outcome = registered(server, "taxi", {1: "in_service"}, api="v1")
    assert "deploy.registry.kubeflow.api" in (outcome.error or "")


def test_stand_in_answers_as_the_server_does(server: RegistryServer) -> None:
    """Both get the same requests: those of a push, and such as are refused."""
    model = {"name": "compared", "description": "d", "customProperties": {}}
    text = {"metadataType": "MetadataStringValue", "string_value": "x"}
    version = {"name": "1", "registeredModelId": "MODEL", "state": "LIVE", "customProperties": {"a": text}}
    artifact = {"artifactType": "model-artifact", "name": "compared-1", "uri": f"{AT}/1", "state": "LIVE"}
    requests: list[tuple[str, str, Any]] = [
        ("GET", "registered_model?name=compared", None),
        ("POST", "registered_models", model),
        ("POST", "registered_models", model),
        ("GET", "registered_model?name=compared", None),
        ("GET", "registered_models/MODEL/versions?pageSize=1", None),
        ("POST", "model_versions", version),
        ("POST", "model_versions", version),
        ("POST", "model_versions", {**version, "name": "2"}),
        ("GET", "model_versions/VERSION/artifacts?pageSize=1", None),
        ("POST", "model_versions/VERSION/artifacts", artifact),
        ("GET", "model_versions/VERSION/artifacts?pageSize=1", None),
        ("PATCH", "model_versions/VERSION", {"customProperties": {"b": text}, "state": "ARCHIVED"}),
        ("GET", "registered_models/MODEL/versions?pageSize=1", None),
        ("GET", "registered_models/MODEL/versions?pageSize=100", None),
        ("GET", "nothing", None),
    ]
    with model_registry() as stand_in:
        theirs = said(requests, server.answer)
        ours = said(requests, stand_in.answer)
    for request, real, imitated in zip(requests, theirs, ours, strict=True):
        assert imitated == real, request


def said(requests: list[tuple[str, str, Any]], answer: Callable[[str, str, Any], tuple[int, Any]]) -> list[Any]:
    """Statuses and what the client reads off answers, with ids by the kind of what has them."""
    ids, found = {"MODEL": "", "VERSION": ""}, []
    for method, path, body in requests:
        at = re.sub("MODEL|VERSION", lambda word: ids[word[0]], path)
        sent = {key: ids.get(value, value) if isinstance(value, str) else value for key, value in (body or {}).items()}
        status, given = answer(method, f"{API}/{at}", sent if body else None)
        if status == 201 and path in {"registered_models", "model_versions"}:
            kind = "MODEL" if path == "registered_models" else "VERSION"
            ids[kind] = ids[kind] or given["id"]
        read = given if status < 300 and given else {}
        listed = [shown(one) for one in read["items"]] if "items" in read else None
        found.append((status, shown(read), listed, bool(read.get("nextPageToken"))))
    return found


def shown(one: dict[str, Any]) -> dict[str, Any]:
    """The fields of a thing that the client reads."""
    return {key: one[key] for key in ("name", "state", "customProperties", "uri", "artifactType") if one.get(key)}
