"""Pushed versions registered from the Pusher's pod: what is compiled for it, and what it finds in the object store."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from compiled_trips import TRIPS, compiled, invocations
from ended_runs import BLESSED
from model_registry import model_registry
from s3_servers import S3Server
from test_stored_lineage import COMPILED, train
from test_stored_models import HOME, blessed_and_pushed, trained

from headrace.common.errors import ConfigError
from headrace.configs.loading.loader import load_with_locations
from headrace.configs.rules import on_kubeflow
from headrace.pipeline.kubeflow.pod.origin import FILE
from headrace.pipeline.kubeflow.registration import readable, register_pushed
from headrace.pipeline.kubeflow.results_store import volume_store
from headrace.pipeline.kubeflow.store import Store

SECRET = "Bearer x9Yz8Wv7Ut6Sr5Qp4x9Yz8Wv7Ut6Sr5Qp4"
REGISTRY = "deploy.registry.kubeflow={url: 'https://registry.example', authorization_env: REGISTRY_TOKEN}"
GIVEN = "kubeflow.components.Pusher.secrets=[{name: registry, env: {REGISTRY_TOKEN: token}}]"


FACTS = ("run", "commit", "config_digest", "code_digest", "data_fingerprint", "spans", "rows.train", "started_from")


def settings(url: str, **more: Any) -> dict[str, Any]:
    """As they are compiled."""
    kubeflow = {"url": url, "authorization_env": "REGISTRY_TOKEN"}
    return {"registries": {"kubeflow": kubeflow, **more}, "pipeline": "trips", "push": "serving/trips"}


@pytest.mark.slow
def test_only_the_pushers_pod_knows_the_registry() -> None:
    told = {name: one.registration for name, one in invocations(compiled(REGISTRY, GIVEN)).items()}
    found = {name: one for name, one in told.items() if one}
    (registration,) = found.values()
    assert [name.endswith("pusher") for name in found] == [True]
    assert (registration["pipeline"], registration["push"]) == ("trips", "serving/trips")
    assert registration["registries"]["kubeflow"]["authorization_env"] == "REGISTRY_TOKEN"
    assert not [one for one in invocations(compiled()).values() if one.registration or "registration" in one.to_json()]


@pytest.mark.parametrize(
    ("overrides", "reported"),
    [
        ([REGISTRY], r"deploy\.registry\.kubeflow\.authorization_env: .*REGISTRY_TOKEN; name the Secret"),
        ([REGISTRY, GIVEN, "deploy.push=/srv/models"], r"deploy\.registry: /srv/models .*object store"),
        (
            [REGISTRY, GIVEN, "kubeflow={storage: reference, volume: {claim: artifacts}}"],
            r"deploy\.registry\.source: .*on a volume.*pvc://claim",
        ),
    ],
)
def test_what_the_pod_could_not_register_is_refused(overrides: list[str], reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        load_with_locations(TRIPS, overrides=overrides, rules=on_kubeflow.RULES)


def certified(file: str) -> str:
    return f"deploy.registry.kubeflow={{url: 'https://registry.example', ca_file: '{file}'}}"


CERTIFICATES = "kubeflow.components.Pusher.secrets=[{name: registry-ca, path: /certs}]"


@pytest.mark.parametrize("file", ["ca.pem", "~/ca.pem", "/home/me/ca.pem", "/certs/../ca.pem", "/certificates/ca.pem"])
def test_certificate_that_the_pod_does_not_have_is_refused(file: str) -> None:
    with pytest.raises(ConfigError, match=r"deploy\.registry\.kubeflow\.ca_file: .*ca\.pem: mount a Secret"):
        load_with_locations(TRIPS, overrides=[certified(file), CERTIFICATES], rules=on_kubeflow.RULES)


@pytest.mark.parametrize(
    ("file", "more"),
    [
        ("/certs/ca.pem", [CERTIFICATES]),
        ("/certs/ca.pem", ["kubeflow.defaults.volumes=[{claim: certificates, path: /certs}]"]),
        ("/opt/ca/bundle.pem", []),
    ],
)
def test_certificate_that_is_mounted_or_in_the_image_is_enough(file: str, more: list[str]) -> None:
    load_with_locations(TRIPS, overrides=[certified(file), *more], rules=on_kubeflow.RULES)


def test_token_from_a_secret_is_enough() -> None:
    load_with_locations(TRIPS, overrides=[REGISTRY, GIVEN], rules=on_kubeflow.RULES)


@pytest.mark.slow
def test_versions_in_the_store_are_registered_with_run_metrics_and_spans(
    store: Store, tmp_path: Path, s3_server: S3Server
) -> None:
    trained(store, tmp_path, "run-a", BLESSED)
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000005")
    trained(store, tmp_path, "run-b", BLESSED)
    blessed_and_pushed(store, tmp_path / "pod", "run-b", "2026-03-02T12:00:00", "1790000006")
    store.write(f"{HOME}/serving/trips/17/saved_model.pb", "by another program")
    with model_registry(token=SECRET) as registry:
        register_pushed(settings(registry.url), HOME, store, {"REGISTRY_TOKEN": SECRET})
        assert registry.texts("trips", "headrace.state") == {"1790000005": "superseded", "1790000006": "in_service"}
        assert registry.texts("trips", "headrace.run") == {"1790000005": "run-a", "1790000006": "run-b"}
        assert registry.texts("trips", "headrace.spans") == {"1790000005": "4 to 5 (2)", "1790000006": "4 to 6 (2)"}
        uris = {name: one["uri"] for name, (one,) in registry.artifacts("trips").items()}
        assert uris == {number: f"{HOME}/serving/trips/{number}" for number in ("1790000005", "1790000006")}
        measured = registry.versions("trips")["1790000005"]["customProperties"]["metric.auc"]["double_value"]
        assert measured == BLESSED.metrics["auc"]
        requests = len(registry.requests)
        register_pushed(settings(registry.url), HOME, store, {"REGISTRY_TOKEN": SECRET})
        assert {one.method for one in registry.requests[requests:]} == {"GET"}


@pytest.mark.slow
def test_versions_say_which_commit_config_code_and_data_their_models_are_from(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(store, tmp_path, "run-a", (1, 2))
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000001")
    train(store, tmp_path, "run-b", (3,), base="run-a")
    blessed_and_pushed(store, tmp_path / "pod", "run-b", "2026-03-02T12:00:00", "1790000002")
    train(store, tmp_path, "run-c", (4,))
    blessed_and_pushed(store, tmp_path / "pod", "run-c", "2026-03-03T12:00:00", "1790000003")
    store.write(f"{HOME}/run-c/trainer/5/{FILE}", "{")
    with model_registry(token=SECRET) as registry:
        register_pushed(settings(registry.url), HOME, store, {"REGISTRY_TOKEN": SECRET})
        a, b, c = (
            {name: registry.texts("trips", f"headrace.{name}").get(f"179000000{number}") for name in FACTS}
            for number in (1, 2, 3)
        )
    assert COMPILED.config is not None
    digest = hashlib.sha256(COMPILED.config.encode()).hexdigest()
    assert (a["commit"], a["config_digest"], a["code_digest"]) == ("4f0c2a+dirty", digest, "c0de")
    assert (a["spans"], a["rows.train"], a["started_from"]) == ("1 to 2 (2)", "7", None)
    assert (b["spans"], b["started_from"]) == ("3 (1)", f"{HOME}/run-a/trainer/5/model")
    assert len({a["data_fingerprint"], b["data_fingerprint"], None}) == 3
    assert (c["run"], c["commit"]) == ("run-c", None)
    assert "version 1790000003 is registered without " in caplog.text


def test_models_on_a_volume_have_the_source_of_the_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    store = volume_store(str(tmp_path / "volume"), HOME)
    trained(store, tmp_path, "run-a", BLESSED)
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000005")
    with model_registry() as registry:
        more = {"source": "pvc://artifacts/{name}/serving"}
        register_pushed(settings(registry.url, **more), HOME, store, {"REGISTRY_TOKEN": SECRET})
        ((one,),) = registry.artifacts("trips").values()
    assert one["uri"] == "pvc://artifacts/trips/serving/1790000005"


def test_damaged_list_is_reported_and_the_push_stands(
    store: Store, tmp_path: Path, s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    trained(store, tmp_path, "run-a", BLESSED)
    store.write(f"{HOME}/blessed.json", "{")
    register_pushed(settings("http://127.0.0.1:1"), HOME, store, {"REGISTRY_TOKEN": SECRET})
    assert "deploy.registry: no version is registered" in caplog.text
    assert f"{HOME}/blessed.json" in caplog.text


def test_stores_of_kubeflows_own_scheme_are_named_as_others_read_them() -> None:
    assert readable("minio://mlpipeline/v2/artifacts/taxi") == "s3://mlpipeline/v2/artifacts/taxi"
    assert readable("gs://bucket/taxi") == "gs://bucket/taxi"
