"""Empty directories for the stories that the tests here tell (few runs, many assertions), and Kubeflow's server."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from command import processes_in, wait_until
from go_programs import BuildError
from kfp_cluster import Bucket, bucket_of_runs
from kfp_commands import Built, Kubeflow, Reachable
from kfp_server import Server, build, serving
from s3_servers import S3Server

ENDPOINT = "HEADRACE_TEST_KFP_ENDPOINT"
NAMESPACE = "HEADRACE_TEST_KFP_NAMESPACE"
NEEDS = f"{ENDPOINT} names no Kubeflow"
"""It wants the URL of one (service/ml-pipeline-ui or service/ml-pipeline, forwarded will do), of release 2.16 or newer,
with Kubeflow's own configuration of Argo; for one with users also the namespace, and a token in kfp_commands.TOKEN.
Nothing is executed there, as the image of the runs does not exist; so it needs no store, no data, and room for a pod or
two that wait for their image.
"""
numbers = itertools.count()


@pytest.fixture(scope="session")
def new_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Makes empty directories; at the end no process may be left in any."""
    made: list[Path] = []

    def make(name: str) -> Path:
        made.append(tmp_path_factory.mktemp(name))
        return made[-1]

    yield make
    for folder in made:
        assert wait_until(partial(_is_left, folder))


def _is_left(folder: Path) -> bool:
    return processes_in(folder) == []


@pytest.fixture(scope="session")
def kfp_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kubeflow's own API server, built."""
    try:
        return build(tmp_path_factory.mktemp("kfp_backend"))
    except BuildError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def server(kfp_binary: Path) -> Iterator[Server]:
    """Kubeflow's own API server with nothing in it."""
    with serving(kfp_binary) as server:
        yield server


@pytest.fixture(scope="module")
def bucket(s3_server: S3Server) -> Iterator[Bucket]:
    """An empty bucket on an S3 server."""
    with bucket_of_runs(s3_server) as bucket:
        yield bucket


@pytest.fixture(params=["built", "endpoint"])
def kubeflow(request: pytest.FixtureRequest) -> Iterator[Kubeflow]:
    """The server that the tests built, and any that the environment names: with an experiment and a pipeline of the
    test's own.
    """
    if request.param == "built":
        yield Built(request.getfixturevalue("server"), next(numbers))
        return
    if ENDPOINT not in os.environ:
        pytest.skip(NEEDS)
    there = Reachable(os.environ[ENDPOINT], os.environ.get(NAMESPACE, ""))
    try:
        yield there
    finally:
        there.remove()
