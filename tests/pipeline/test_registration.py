"""Model registries brought to the state of `deploy.push`: what is added, what is noted, and what fails without harm."""

from __future__ import annotations

import datetime as dt
import json
import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kfp_kubernetes import certificate
from model_registry import Registry, model_registry
from receivers import http_receiver

from headrace.configs.schema.model_registry import KubeflowRegistry, MlflowRegistry, ModelRegistries
from headrace.pipeline.notify.transport import DeliveryError
from headrace.pipeline.registration.api import Api
from headrace.pipeline.registration.register import LIMIT, RegistrationOutcome, register
from headrace.pipeline.registration.versions import PushedVersion, Shelf, State

AT = "s3://models/taxi"
TRAINED = dt.datetime(2026, 11, 22, 3, tzinfo=dt.UTC)
SECRET = "Bearer x9Yz8Wv7Ut6Sr5Qp4x9Yz8Wv7Ut6Sr5Qp4"


@dataclass
class Folder:
    """What is in `deploy.push`, and which versions were asked for."""

    states: dict[int, State]
    at: str = AT
    asked: list[int] = field(default_factory=list)

    @property
    def shelf(self) -> Shelf:
        return Shelf(self.at, self.states, self._describe)

    def _describe(self, number: int) -> PushedVersion:
        self.asked.append(number)
        return PushedVersion(
            number,
            model=f"runs/model-{number}",
            source=f"{self.at}/{number}",
            state=self.states[number],
            run=f"run-{number}",
            trained=TRAINED,
            metrics={"auc": number / 1000},
            facts={"pipeline": "taxi", "version": str(number), "commit": "4f0c2a91b+dirty", "spans": "a to b (7)"},
        )


def brought_up(
    registry: Registry, folder: Folder, environ: Mapping[str, str] | None = None, **more: Any
) -> RegistrationOutcome:
    settings = ModelRegistries(kubeflow=KubeflowRegistry(url=registry.url, **more))
    (outcome,) = register(settings, "taxi", folder.shelf, environ or {})
    return outcome


@pytest.fixture
def registry() -> Iterator[Registry]:
    with model_registry() as registry:
        yield registry


def test_version_is_registered_with_metrics_facts_and_an_artifact(registry: Registry) -> None:
    assert brought_up(registry, Folder({17: "in_service"})) == RegistrationOutcome("kubeflow", "taxi", (17,))
    (one,) = registry.versions("taxi").values()
    assert (one["name"], one["state"]) == ("17", "LIVE")
    told = one["customProperties"]
    assert told["metric.auc"] == {"metadataType": "MetadataDoubleValue", "double_value": 0.017}
    texts = {key: value["string_value"] for key, value in told.items() if "string_value" in value}
    assert texts == {
        "headrace.pipeline": "taxi",
        "headrace.version": "17",
        "headrace.commit": "4f0c2a91b+dirty",
        "headrace.spans": "a to b (7)",
        "headrace.destination": AT,
        "headrace.state": "in_service",
    }
    ((artifact,),) = registry.artifacts("taxi").values()
    assert (artifact["uri"], artifact["artifactType"]) == (f"{AT}/17", "model-artifact")
    assert (artifact["modelFormatName"], artifact["state"]) == ("tensorflow", "LIVE")


@pytest.mark.slow
def test_nothing_is_registered_twice_nor_described_again(registry: Registry) -> None:
    folder = Folder({**dict.fromkeys(range(1, 6), "superseded"), 6: "in_service"})
    assert brought_up(registry, folder).added == (1, 2, 3, 4, 5, 6)
    before = len(registry.requests)
    assert brought_up(registry, folder) == RegistrationOutcome("kubeflow", "taxi")
    assert {request.method for request in registry.requests[before:]} == {"GET"}
    assert folder.asked == [1, 2, 3, 4, 5, 6]
    assert len(registry.versions("taxi")) == 6


def test_states_follow_a_push_a_rollback_and_a_removal(registry: Registry) -> None:
    brought_up(registry, Folder({1: "superseded", 2: "in_service"}))
    brought_up(registry, Folder({1: "superseded", 2: "withdrawn", 3: "in_service"}))
    assert registry.texts("taxi", "headrace.state") == {"1": "superseded", "2": "withdrawn", "3": "in_service"}
    brought_up(registry, Folder({3: "superseded", 4: "in_service"}))
    assert registry.texts("taxi", "headrace.state") == {
        "1": "removed",
        "2": "removed",
        "3": "superseded",
        "4": "in_service",
    }
    states = {name: one["state"] for name, one in registry.versions("taxi").items()}
    assert states == {"1": "ARCHIVED", "2": "ARCHIVED", "3": "LIVE", "4": "LIVE"}
    assert registry.texts("taxi", "headrace.commit") == dict.fromkeys("1234", "4f0c2a91b+dirty")


@pytest.mark.slow
def test_only_the_newest_versions_of_a_long_list_are_registered(registry: Registry) -> None:
    states: dict[int, State] = dict.fromkeys(range(1, LIMIT + 4), "superseded")
    folder = Folder({**states, LIMIT + 4: "in_service"})
    assert brought_up(registry, folder).added == tuple(range(5, LIMIT + 5))


def test_version_left_without_an_artifact_is_completed(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    registry.fail_at = "/artifacts"
    failed = brought_up(registry, Folder({17: "in_service"}))
    assert (failed.added, failed.error) == ((), f"version 17: {registry.url[7:]} answers with status 503: 503: not now")
    assert "deploy.registry.kubeflow: the versions in s3://models/taxi are not all registered" in caplog.text
    assert "the next run tries again" in caplog.text
    assert registry.artifacts("taxi") == {"17": []}
    assert brought_up(registry, Folder({17: "in_service"})).added == (17,)
    assert [len(found) for found in registry.artifacts("taxi").values()] == [1]
    assert registry.texts("taxi", "headrace.state") == {"17": "in_service"}


def test_reads_are_tried_again(registry: Registry) -> None:
    registry.refuse = 1
    assert brought_up(registry, Folder({17: "in_service"})).added == (17,)


def test_versions_of_another_folder_are_left_alone(registry: Registry) -> None:
    brought_up(registry, Folder({1: "in_service"}, at="/elsewhere/taxi"))
    assert registry.artifacts("taxi")["1"][0]["uri"] == "file:///elsewhere/taxi/1"
    assert brought_up(registry, Folder({2: "in_service"})).added == (2,)
    assert registry.texts("taxi", "headrace.state") == {"1": "in_service", "2": "in_service"}
    clash = brought_up(registry, Folder({1: "superseded", 2: "in_service"}))
    assert clash.error is not None
    assert "another folder" in clash.error
    assert "`model`" in clash.error


@pytest.mark.slow
def test_versions_that_cannot_be_registered_are_named_and_hold_up_no_other(registry: Registry) -> None:
    brought_up(registry, Folder({2: "superseded", 4: "in_service"}, at="/elsewhere/taxi"))
    clash = brought_up(registry, Folder({1: "superseded", 2: "superseded", 3: "superseded", 5: "in_service"}))
    assert clash.added == (1, 3, 5)
    assert clash.error is not None
    assert clash.error.startswith("version 2: taxi has a version 2 ")
    assert "version 3" not in clash.error
    again = brought_up(registry, Folder({1: "withdrawn", 2: "superseded", 4: "superseded", 5: "in_service"}))
    assert (again.added, again.error is None) == ((), False)
    ours = {name: one for name, one in registry.texts("taxi", "headrace.state").items() if name in {"1", "3", "5"}}
    assert ours == {"1": "withdrawn", "3": "removed", "5": "in_service"}


def test_version_whose_records_are_damaged_holds_up_no_other(registry: Registry) -> None:
    folder = Folder({1: "superseded", 2: "superseded", 3: "in_service"})

    def describe(number: int) -> PushedVersion:
        if number < 3:
            raise ValueError("damaged")
        return folder.shelf.describe(number)

    settings = ModelRegistries(kubeflow=KubeflowRegistry(url=registry.url))
    (outcome,) = register(settings, "taxi", Shelf(AT, folder.states, describe), {})
    assert outcome == RegistrationOutcome(
        "kubeflow", "taxi", (3,), "version 1, version 2: an unexpected ValueError (damaged)"
    )


def test_server_that_goes_away_is_asked_for_no_further_version(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipeline.notify.transport.WAITS", ())
    registry.away_after = "/artifacts"
    outcome = brought_up(registry, Folder({**dict.fromkeys(range(1, 9), "superseded"), 9: "in_service"}))
    assert outcome.added == ()
    assert outcome.error is not None
    assert outcome.error.startswith("version 1: ")
    assert "cannot be reached" in outcome.error
    assert [one.method for one in registry.requests[-2:]] == ["PATCH", "GET"]
    assert not [one for one in registry.requests if one.body and one.body.get("name") == "2"]


def test_server_that_answers_no_uploads_is_asked_for_three_versions(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipeline.notify.transport.WAITS", ())
    registry.silent = "/artifacts"
    outcome = brought_up(registry, Folder({**dict.fromkeys(range(1, 9), "superseded"), 9: "in_service"}))
    assert outcome.added == ()
    assert outcome.error is not None
    assert outcome.error.startswith("version 1, version 2, version 3: ")
    assert len([one for one in registry.requests if one.path.endswith("/artifacts") and one.method == "POST"]) == 3


def test_other_api_is_asked_at_its_path_and_the_wrong_one_is_named() -> None:
    with model_registry("v1") as registry:
        wrong = brought_up(registry, Folder({1: "in_service"}))
        assert wrong.error is not None
        assert "deploy.registry.kubeflow.api" in wrong.error
        assert brought_up(registry, Folder({1: "in_service"}), api="v1").added == (1,)


def test_token_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with model_registry(token=SECRET) as registry:
        none = brought_up(registry, Folder({1: "in_service"}))
        assert none.error is not None
        assert "status 401: 401: unauthorized; `authorization_env` is null" in none.error
        missing = brought_up(registry, Folder({1: "in_service"}), authorization_env="TOKEN")
        assert missing.error == "the environment variable TOKEN is not set"
        wrong = brought_up(registry, Folder({1: "in_service"}), {"TOKEN": f"{SECRET}z"}, authorization_env="TOKEN")
        assert wrong.error is not None
        assert "status 401: 401: unauthorized; check the header in TOKEN (`authorization_env`)" in wrong.error
        right = brought_up(registry, Folder({1: "in_service"}), {"TOKEN": SECRET}, authorization_env="TOKEN")
        assert right.added == (1,)
        assert SECRET not in json.dumps([request.body for request in registry.requests])
    assert SECRET not in caplog.text


def test_server_that_is_away_or_is_no_registry_is_reported() -> None:
    away = ModelRegistries(
        mlflow=MlflowRegistry(url="http://127.0.0.1:1"), kubeflow=KubeflowRegistry(url="http://127.0.0.1:1")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.pipeline.notify.transport.WAITS", ())
        outcomes = register(away, "taxi", Folder({1: "in_service"}).shelf, {})
    assert [one.registry for one in outcomes] == ["mlflow", "kubeflow"]
    assert all(one.error is not None and "127.0.0.1:1 cannot be reached" in one.error for one in outcomes)


def test_damaged_record_of_a_version_is_reported(registry: Registry) -> None:
    def damaged(_: int) -> PushedVersion:
        raise ValueError(f"damaged: password={SECRET}")

    shelf = Shelf(AT, {1: "in_service"}, damaged)
    settings = ModelRegistries(kubeflow=KubeflowRegistry(url=registry.url))
    (outcome,) = register(settings, "taxi", shelf, {})
    assert outcome.error is not None
    assert "ValueError" in outcome.error
    assert SECRET not in outcome.error


def test_certificate_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    with http_receiver(signed=certificate(tmp_path)) as server:
        settings = ModelRegistries(kubeflow=KubeflowRegistry(url=server.url))
        (outcome,) = register(settings, "taxi", Folder({1: "in_service"}).shelf, {})
    assert outcome.error is not None
    assert "certificate is not valid here" in outcome.error
    assert not server.requests


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "header in TOKEN (`authorization_env`)"),
        (301, "redirects are not followed; set `url`"),
        (308, "redirects are not followed; set `url`"),
        (302, "check `url` and `authorization_env`"),
    ],
)
def test_refusals_and_redirects_say_what_to_change(status: int, said: str) -> None:
    with http_receiver([status], to=f"https://user:{SECRET}@elsewhere.example/") as server:
        with pytest.raises(DeliveryError, match=f"answers with status {status}") as raised:
            Api(server.url, SECRET, variable="TOKEN").send("POST", "/api", {})
        assert said in str(raised.value)
        assert SECRET not in str(raised.value)


def test_answer_that_is_a_page_is_no_registry(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>Please log in", encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(
            DeliveryError, match=f"127.0.0.1:{server.server_port} answers with something else than JSON"
        ):
            Api(f"http://127.0.0.1:{server.server_port}").get("/index.html")
        server.shutdown()


def test_two_registries_are_independent(registry: Registry) -> None:
    settings = ModelRegistries(
        mlflow=MlflowRegistry(url="http://127.0.0.1:1"), kubeflow=KubeflowRegistry(url=registry.url, model="x-{name}")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.pipeline.notify.transport.WAITS", ())
        first, second = register(settings, "taxi", Folder({7: "in_service"}).shelf, {})
    assert first.error is not None
    assert (second.model, second.added, second.error) == ("x-taxi", (7,), None)
    assert str(second) == "kubeflow has version 7 of x-taxi"
