"""A server of Kubeflow Pipelines that tests may let fail, an object store, and a cluster with KServe."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import kserve_cluster
import pytest
from faulty_backend import Backend, serving
from forks import Forked
from s3_servers import S3Server

from headrace.pipeline.kubeflow.store import Store, open_store


@pytest.fixture
def backend() -> Iterator[Backend]:
    """It has no runs, and nothing fails yet."""
    with serving() as alive:
        yield alive


@pytest.fixture
def store(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """On an S3 server, with an empty bucket `root`."""
    s3_server.enter(monkeypatch)
    with s3_server.bucket("root"):
        yield open_store({})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[kserve_cluster.Cluster]:
    """One that serves kserve_objects.FIRST, in serverless mode."""
    with kserve_cluster.serving(kserve_cluster.Cluster("Serverless")) as alive:
        alive.use(monkeypatch, tmp_path)
        alive.settle()
        yield alive


@pytest.fixture
def forked_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processes of pods start with the imports done, unlike those of test_kubeflow_entrypoint.py."""
    monkeypatch.setattr(subprocess, "Popen", Forked)
