"""TensorFlow Serving from pods: what is compiled, what a pod could not reach, and what the Pusher's pod does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compiled_trips import TRIPS, compiled, invocations
from ended_runs import BLESSED
from google.protobuf import text_format
from s3_servers import S3Server
from tensorflow_serving.config import model_server_config_pb2
from test_stored_models import HOME, blessed_and_pushed, trained

from headrace.common.errors import ConfigError, RunError
from headrace.configs.loading.loader import load_with_locations
from headrace.configs.rules import on_kubeflow
from headrace.pipeline.kubeflow.production import serve_pushed
from headrace.pipeline.kubeflow.store import Store

STAGING = "deploy.canary.server={rest: 'http://staging.models:8501', folder: 's3://models/staging'}"
PUSHED = "s3://mlpipeline/v2/artifacts/trips/serving/trips"
"""Where the Pusher pushes to, as a server outside of Kubeflow names it."""
SERVING = "deploy.serving={grpc: 'serving.models:8500'}"


def test_only_the_pods_that_ask_a_server_know_it() -> None:
    told = invocations(compiled(STAGING, SERVING))
    (pusher,) = [name for name, one in told.items() if one.serving]
    assert pusher.endswith("pusher")
    assert told[pusher].serving["serving"]["grpc"] == "serving.models:8500"
    canary = next(one for name, one in told.items() if name.endswith("canary"))
    assert "staging.models" in canary.exec_properties["server"]
    assert not [one for one in invocations(compiled()).values() if one.serving or "serving_addr" in one.to_json()]


@pytest.mark.parametrize(
    ("override", "reported"),
    [
        (
            STAGING.replace("staging.models:8501", "localhost:8501"),
            r"deploy\.canary\.server\.rest: localhost is the Canary's",
        ),
        ("deploy.serving={grpc: '127.0.0.1:8500'}", r"deploy\.serving\.grpc: 127\.0\.0\.1 .*Pusher's pod"),
        (STAGING.replace("s3://models/staging", "staging"), r"deploy\.canary\.server\.folder: staging .*volume"),
        (
            STAGING.replace("s3://models/staging", f"{PUSHED}/"),
            r"deploy\.canary\.server\.folder: .*`deploy\.push`",
        ),
        ("deploy.serving={rest: 'https://serving', ca_file: ca.pem}", r"deploy\.serving\.ca_file: .* has no ca\.pem"),
        (
            "deploy.serving={rest: 'https://serving', on_failure: roll_back}",
            r"deploy\.serving\.on_failure: .*rollback --kubeflow",
        ),
        (
            "deploy.serving={config_file: models.config}",
            r"deploy\.serving\.config_file: models\.config .*volume",
        ),
        ("deploy={push: /srv/models, serving: {grpc: 'serving:8500'}}", r"deploy\.serving: /srv/models is not in the"),
    ],
)
def test_what_a_pod_could_not_do_is_refused(override: str, reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        load_with_locations(TRIPS, overrides=[override], rules=on_kubeflow.RULES)


@pytest.mark.parametrize(
    "overrides",
    [
        (STAGING, SERVING),
        (
            STAGING.replace("s3://models/staging", "/models/staging"),
            "kubeflow.components.Canary.volumes=[{claim: models, path: /models}]",
        ),
        ("deploy.serving={config_file: 's3://models/models.config'}",),
    ],
)
def test_what_a_pod_reaches_is_accepted(overrides: tuple[str, ...]) -> None:
    load_with_locations(TRIPS, overrides=[*overrides], rules=on_kubeflow.RULES)


def given(**serving: Any) -> dict[str, Any]:
    """As it is compiled."""
    return {"serving": serving, "pipeline": "trips", "push": "serving/trips"}


def test_config_file_is_written_into_the_store_once(store: Store, tmp_path: Path, s3_server: S3Server) -> None:
    settings = given(config_file="s3://root/models.config", base_path="/models/{name}")
    serve_pushed(settings, HOME, store)  # nothing was pushed yet
    assert not store.exists("s3://root/models.config")
    trained(store, tmp_path, "run-a", BLESSED)
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000005")
    trained(store, tmp_path, "run-b", BLESSED)
    blessed_and_pushed(store, tmp_path / "pod", "run-b", "2026-03-02T12:00:00", "1790000006")
    serve_pushed(settings, HOME, store)
    text = store.text("s3://root/models.config")
    config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
    (entry,) = config.model_config_list.config
    assert (entry.name, entry.base_path) == ("trips", "/models/trips")
    assert not entry.version_labels
    before = store.files("s3://root")["models.config"]
    serve_pushed(settings, HOME, store)
    assert store.files("s3://root")["models.config"] == before


def test_task_fails_if_the_server_does_not_answer(store: Store, tmp_path: Path, s3_server: S3Server) -> None:
    trained(store, tmp_path, "run-a", BLESSED)
    blessed_and_pushed(store, tmp_path / "pod", "run-a", "2026-03-01T12:00:00", "1790000005")
    settings = given(rest="http://127.0.0.1:1", timeout_seconds=0.1)
    with pytest.raises(RunError, match=r"version 1790000005 was pushed, but .*127\.0\.0\.1:1 does not answer"):
        serve_pushed(settings, HOME, store)
    serve_pushed(settings, HOME, store, from_pod=False)  # as it may not be reached from here
