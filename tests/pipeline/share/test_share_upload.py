"""The shared folder in a bucket, on real servers of S3 and Google Cloud Storage, and on Vertex AI as far as it goes."""

from __future__ import annotations

import inspect
import json
import os
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stores import serving

from configs.errors import RunError
from pipeline.share.find import find
from pipeline.share.vertex import VertexUpload, experiment
from pipeline.verbs.share import share

Two = Callable[[], list[Path]]
AWS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}


def test_on_s3_a_browser_is_shown_the_page(two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with serving(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "{port}") as server:
        for name, value in {**AWS, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": server}.items():
            monkeypatch.setenv(name, value)
        client = boto3.client("s3", endpoint_url=server)
        client.create_bucket(Bucket="trainings")
        target = str(tmp_path / "page")
        given = [*map(str, two()), "-o", target, "--to", "s3://trainings/taxi/1/"]
        ended = CliRunner().invoke(share, given)
        assert ended.exit_code == 0, ended.output
        files = {path.relative_to(target).as_posix(): path for path in Path(target).rglob("*") if path.is_file()}
        assert ended.output.splitlines()[-1] == f"s3://trainings/taxi/1/index.html  {len(files)} files"
        stored = {found["Key"] for found in client.list_objects_v2(Bucket="trainings")["Contents"]}
        assert {key for key in stored if not key.endswith("/")} == {f"taxi/1/{name}" for name in files}
        kinds = {}
        for name, path in files.items():
            found = client.get_object(Bucket="trainings", Key=f"taxi/1/{name}")
            assert found["Body"].read() == path.read_bytes()
            kinds[path.suffix] = found["ContentType"]
        assert kinds[".html"] == "text/html; charset=utf-8"
        assert kinds[".json"] == "application/json"
        assert kinds[".pb"] == "application/octet-stream"

        ended = CliRunner().invoke(share, [str(two()[0]), "-o", target, "--to", "s3://nowhere/taxi"])
        assert ended.exit_code == 1
        assert "the page was not uploaded: " in ended.output
        assert "there is no bucket 'nowhere'" in ended.output
        assert (tmp_path / "page" / "index.html").exists()


def test_on_google_cloud_storage_too(two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gcp_storage_emulator", reason="no emulator of Google Cloud Storage is installed")
    run = "from gcp_storage_emulator.__main__ import main; main()"
    arguments = ("start", "--host=127.0.0.1", "--port={port}", "--in-memory", "--default-bucket=bucket")
    with serving(sys.executable, "-c", run, *arguments) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server)
        given = [str(two()[0]), "-o", str(tmp_path / "page"), "--no-logs", "--to", "gs://bucket/taxi"]
        ended = CliRunner().invoke(share, given)
        assert ended.exit_code == 0, ended.output
        about = f"{server}/storage/v1/b/bucket/o/taxi%2Findex.html"
        with urllib.request.urlopen(about) as answer:
            assert json.load(answer)["contentType"] == "text/html; charset=utf-8"
        with urllib.request.urlopen(f"{about}?alt=media") as answer:
            assert answer.read() == (tmp_path / "page" / "index.html").read_bytes()


@pytest.mark.parametrize("given", ["p/l", "p/l/t/x", "p//t", "projects/p/locations/l", "p l/a/b"])
def test_what_names_no_tensorboard_is_refused(given: str) -> None:
    with pytest.raises(RunError, match="write PROJECT/LOCATION/TENSORBOARD"):
        VertexUpload.of(given)


def test_a_tensorboard_is_named_in_short_or_in_full() -> None:
    short = VertexUpload.of("my-project/europe-west4/123")
    assert short == VertexUpload("my-project", "europe-west4", "123")
    assert VertexUpload.of("projects/my-project/locations/europe-west4/tensorboards/123") == short


@pytest.mark.parametrize(
    ("name", "expected"), [("Tips & Rides", "tips-rides"), ("x" * 200, "x" * 128), ("---", "headrace"), ("é1", "1")]
)
def test_an_experiment_has_a_name_that_vertex_takes(name: str, expected: str) -> None:
    assert experiment(name) == expected


@pytest.mark.slow
def test_the_upload_to_vertex_is_called_as_the_library_has_it(
    two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.cloud import aiplatform

    upload = VertexUpload("my-project", "europe-west4", "123")
    called: list[dict[str, Any]] = []
    signature = inspect.signature(aiplatform.upload_tb_log)

    def note(*args: Any, **kwargs: Any) -> None:
        called.append(dict(signature.bind(*args, **kwargs).arguments))
        called[-1]["files"] = sorted(
            path.relative_to(kwargs["logdir"]).parts[:2] for path in Path(kwargs["logdir"]).rglob("events*")
        )

    monkeypatch.setattr(aiplatform, "upload_tb_log", note)
    told = upload.send(tmp_path, [find(run) for run in two()], "Tips & Rides", "of 2013")
    (arguments,) = called
    assert arguments.pop("files") == [
        ("20260101-000000", "train"), ("20260101-000000", "validation"),
        ("20260102-000000", "train"), ("20260102-000000", "validation"),
    ]  # fmt: skip
    assert not Path(arguments.pop("logdir")).exists()
    assert arguments == {
        "tensorboard_experiment_name": "tips-rides", "tensorboard_id": "123", "project": "my-project",
        "location": "europe-west4", "experiment_display_name": "Tips & Rides", "description": "of 2013", "verbosity": 0,
    }  # fmt: skip
    assert told.startswith("https://europe-west4.tensorboard.googleusercontent.com/experiment/projects+my-project+")


@pytest.mark.slow
def test_without_credentials_for_vertex_it_says_what_to_do(
    two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(RunError, match=r"not uploaded to Vertex AI: .*none.json(.|\n)*gcloud auth application-default"):
        VertexUpload("my-project", "europe-west4", "123").send(tmp_path, [find(two()[0])], "Tips", "")
