"""A server of Kubeflow Pipelines that tests may let fail, and an object store."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from faulty_backend import Backend, serving
from moto.server import ThreadedMotoServer

from headrace.pipeline.kubeflow.store import Store, open_store


@pytest.fixture
def backend() -> Iterator[Backend]:
    """It has no runs, and nothing fails yet."""
    with serving() as alive:
        yield alive


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """On an S3 server, with an empty bucket `root`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HEADRACE_STORE", raising=False)
    bucket = boto3.resource("s3", endpoint_url=f"http://{host}:{port}").create_bucket(Bucket="root")
    bucket.objects.delete()  # all such servers of a process share what they keep
    yield open_store({})
    server.stop()
