"""An object store that refuses a pod, or does not answer it: what the pod says."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.common.errors import HeadraceError, RunError
from headrace.pipeline.kubeflow.pod.checkpoints import mirrored
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.store import KEYS as STORE_KEYS
from headrace.pipeline.kubeflow.store import open_store

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
HOME = "minio://mlpipeline/v2/artifacts/trips"


class Refusing(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self.asked.append(self.headers.get("Authorization", ""))
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_HEAD  # noqa: N815

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a store that asks for keys; there are none in the environment."""
    for name in (*STORE_KEYS, *KEYS, "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "HEADRACE_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_a_store_that_takes_longer_than_the_sdks_default_to_answer_is_waited_for(
    refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one under load does. The AWS SDK's default is 3 seconds, after which it tries again, and then gives up."""
    of_now = Refusing.do_HEAD

    def late(self: Refusing) -> None:
        time.sleep(3.5)
        of_now(self)

    monkeypatch.setattr(Refusing, "do_HEAD", late)
    for name in STORE_KEYS:
        monkeypatch.setenv(name, "the-stores")
    with pytest.raises(HeadraceError, match="refuses the keys"):  # an answer, and no "Timeout was reached"
        open_store({"minio": refusing}, of_pod=True).exists(f"{HOME}/blessed.json")


@pytest.mark.parametrize("variables", [(), KEYS, STORE_KEYS])
def test_a_pod_that_the_store_refuses_names_the_setting_with_the_keys(
    refusing: str, variables: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in variables:
        monkeypatch.setenv(name, "not-the-stores")
    places = PodPaths(str(tmp_path))
    store = open_store({"minio": refusing}, of_pod=True)
    properties = {"registry": str(places.local(f"{HOME}/blessed.json"))}
    with pytest.raises(HeadraceError) as raised, present(properties, places, store):
        pass
    first, *more = str(raised.value).splitlines()
    whose = "the keys that this pod was given" if variables else "a pod without keys"
    assert first.startswith(f"{HOME}/blessed: the object store refuses {whose}: ")
    assert "kubeflow.object_store.secret" in more[0]


def test_a_training_continues_where_the_store_refuses_its_checkpoints(
    refusing: str, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    with mirrored(tmp_path / "checkpoints", f"{HOME}/checkpoints", open_store({"minio": refusing}, of_pod=True)):
        pass
    reported = log.text
    assert "train from the start" in reported
    assert "kubeflow.object_store.secret" in reported


def test_endpoint_that_is_not_a_url_is_reported_with_where_it_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "minio.example:9000")
    with pytest.raises(RunError, match=r"^minio.example:9000 is not the URL .* http:// .* AWS_ENDPOINT_URL\)$"):
        open_store({}).exists("s3://b/blessed.json")


def test_elsewhere_faults_are_those_of_the_file_system(refusing: str) -> None:
    with pytest.raises(OSError, match="ACCESS_DENIED") as raised:
        open_store({"minio": refusing}).exists(f"{HOME}/blessed.json")
    assert not isinstance(raised.value, HeadraceError)


def test_a_pod_whose_data_is_on_a_server_of_its_own_asks_kubeflows_store_with_the_keys_of_that(
    refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("AWS_ENDPOINT_URL", "http://127.0.0.1:9"), *((name, "the-datas") for name in KEYS)):
        monkeypatch.setenv(name, value)
    for name in STORE_KEYS:
        monkeypatch.setenv(name, "the-stores")
    Refusing.asked.clear()
    with pytest.raises(HeadraceError, match="refuses the keys"):
        open_store({"minio": refusing}, of_pod=True).exists(f"{HOME}/blessed.json")
    assert Refusing.asked
    assert all("Credential=the-stores/" in one for one in Refusing.asked)


def test_elsewhere_the_environment_names_the_way_to_kubeflows_store(
    refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", refusing)
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        open_store({"minio": "http://127.0.0.1:9"}).exists(f"{HOME}/blessed.json")
