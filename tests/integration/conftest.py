"""Empty directories for the stories that the tests here tell (few runs, many assertions), and Kubeflow's server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from command import processes_in, wait_until
from kfp_cluster import Bucket, s3
from kfp_server import BuildError, Server, build, serving


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
def bucket() -> Iterator[Bucket]:
    """An empty bucket on an S3 server."""
    with s3() as bucket:
        yield bucket
