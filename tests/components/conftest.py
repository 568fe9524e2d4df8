"""Object stores and a database to read from: real servers, started once for all tests that need them. And a folder to
run ExampleGen in, over spans. And what the files of tests of the Evaluator share.
"""

from __future__ import annotations

import sys
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from postgres import PASSWORD, Server, binaries
from s3_servers import S3Server
from stores import Bucket, serving

if TYPE_CHECKING:
    import numpy as np
    from evaluator_runs import Models

_NUMBERS = count()


@pytest.fixture
def s3_bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket on S3, with the environment as `headrace` needs it to read from there."""
    s3_server.enter(monkeypatch)
    with s3_server.bucket(f"bucket-{next(_NUMBERS)}") as made:
        yield Bucket(
            f"s3://{made.name}",
            s3_server.url,
            lambda key, content: made.put_object(Key=key, Body=content),
            lambda key: made.Object(key).delete(),
        )


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[str]:
    """The URL of a Google Cloud Storage emulator."""
    pytest.importorskip("gcp_storage_emulator", reason="no emulator of Google Cloud Storage is installed")
    run = "from gcp_storage_emulator.__main__ import main; main()"
    arguments = ("start", "--host=127.0.0.1", "--port={port}", "--in-memory", "--default-bucket=bucket")
    with serving(sys.executable, "-c", run, *arguments) as url:
        yield url


@pytest.fixture
def gcs_bucket(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A folder of its own in a bucket on Google Cloud Storage, with the environment to read from there."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server)
    folder = f"folder-{next(_NUMBERS)}"

    def call(url: str, method: str, content: bytes | None = None) -> None:
        urllib.request.urlopen(urllib.request.Request(url, content, method=method)).close()

    def name(key: str) -> str:
        return urllib.parse.quote(f"{folder}/{key}", safe="")

    upload = f"{gcs_server}/upload/storage/v1/b/bucket/o?uploadType=media&name="
    return Bucket(
        f"gs://bucket/{folder}",
        gcs_server,
        lambda key, content: call(upload + name(key), "POST", content),
        lambda key: call(f"{gcs_server}/storage/v1/b/bucket/o/{name(key)}", "DELETE"),
    )


@pytest.fixture(params=["s3", "gs"])
def bucket(request: pytest.FixtureRequest) -> Bucket:
    """One of each kind."""
    found: Bucket = request.getfixturevalue({"s3": "s3_bucket", "gs": "gcs_bucket"}[request.param])
    return found


@pytest.fixture(scope="session")
def database_server() -> Iterator[Server]:
    """PostgreSQL with the tables of `databases`."""
    if binaries() is None:
        pytest.skip("no PostgreSQL server under /usr/lib/postgresql: apt-get install postgresql")
    from databases import postgresql

    with postgresql() as made:
        yield made


@pytest.fixture
def server(database_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The same, with the environment to read from there."""
    monkeypatch.setenv("DB_PASSWORD", PASSWORD)
    return database_server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, to which relative paths refer."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What ExampleGen reads of CSV files (see `span_runs.counting_reads`)."""
    from span_runs import counting_reads

    return counting_reads(monkeypatch)


@pytest.fixture(scope="session")
def data() -> dict[str, np.ndarray]:
    """The rows that the models of the Evaluator's tests are evaluated on, by column (see evaluator_runs.py)."""
    from evaluator_runs import made_data

    return made_data()


@pytest.fixture(scope="session")
def examples(data: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An Examples artifact of these rows for each kind of label."""
    from evaluator_runs import made_examples

    return made_examples(data, tmp_path_factory.mktemp("examples"))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """The exported models, each made when a test first asks for it."""
    from evaluator_runs import Models

    return Models(tmp_path_factory.mktemp("models"))
