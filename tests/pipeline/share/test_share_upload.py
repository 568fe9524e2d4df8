"""The shared folder in buckets of S3 and Google Cloud Storage, and the logs on a server of Vertex AI's types."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import forks
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from forks import Forked
from s3_servers import S3Server
from stores import serving
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from headrace.common.errors import RunError
from headrace.pipeline.share.find import find
from headrace.pipeline.share.upload import VertexUpload, experiment
from headrace.pipeline.verbs.share import share

Two = Callable[[], list[Path]]
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_on_s3_a_browser_is_shown_the_page(
    two: Two, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.enter(monkeypatch)
    with s3_server.bucket("trainings") as bucket:
        client = bucket.meta.client
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
def test_without_credentials_for_vertex_it_says_what_to_do(
    two: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(RunError, match=r"not uploaded to Vertex AI: .*none.json(.|\n)*gcloud auth application-default"):
        VertexUpload("my-project", "europe-west4", "123").send(tmp_path, [find(two()[0])], "Tips", "")


UPLOAD = """
import sys
from pathlib import Path
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform
from headrace.pipeline.share.find import find
from headrace.pipeline.share.upload import VertexUpload
endpoint, *runs = sys.argv[1:]
place = {"project": "my-project", "location": "europe-west4", "api_endpoint": endpoint}
aiplatform.init(**place, credentials=AnonymousCredentials())
upload = VertexUpload("my-project", "europe-west4", "123")
print(upload.send(Path(), [find(Path(run)) for run in runs], "Tips & Rides", "of 2013"))
"""


def certify_localhost(certificate: Path, key: Path) -> None:
    """Write a certificate that localhost gave itself for two days, and its key."""
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]), dt.datetime.now(dt.UTC)
    own = rsa.generate_private_key(65537, 2048)
    signed = (
        x509.CertificateBuilder(name, name, own.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(own, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key.write_bytes(own.private_bytes(*form))


@pytest.mark.slow
def test_googles_client_sends_every_curve_to_a_server_of_its_own_types(two: Two, tmp_path: Path) -> None:
    certificate, key, file = (tmp_path / name for name in ("cert.pem", "key.pem", "reported.json"))
    certify_localhost(certificate, key)
    (tmp_path / "upload.py").write_text(UPLOAD)
    server = Forked(  # Google's client, which both use, takes three CPU seconds to import
        [sys.executable, str(Path(__file__).with_name("vertex_server.py")), str(certificate), str(key), str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        endpoint = f"localhost:{int(server.stdout.readline())}"
        own = {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate), "STORAGE_EMULATOR_HOST": "http://localhost:1"}
        done = forks.run(
            [sys.executable, str(tmp_path / "upload.py"), endpoint, *map(str, two())],
            env={**os.environ, **own, "no_proxy": "localhost"},
        )
        server.communicate(timeout=600)
    finally:
        server.kill()
    assert done.returncode == 0, done.stderr
    place = "projects+my-project+locations+europe-west4+tensorboards+123+experiments+tips-rides"
    assert done.stdout == f"https://europe-west4.tensorboard.googleusercontent.com/experiment/{place}\n"
    reported = json.loads(file.read_text())
    experiment_there = "projects/my-project/locations/europe-west4/tensorboards/123/experiments/tips-rides"
    assert reported["kept"][experiment_there] == "TensorboardExperiment"
    sent = {name: dict(points) for name, points in reported["points"].items() if " epoch_" in name}
    assert sent == {name: pytest.approx(points) for name, points in curves(two()).items()}
    assert any(name.startswith("20260102-000000-validation epoch_loss") for name in sent)


def curves(runs: list[Path]) -> dict[str, dict[int, float]]:
    """Run, split and tag to steps and values, as TensorBoard reads them from the logs."""
    found = {}
    for run in runs:
        for split in ("train", "validation"):
            logs = run.parents[1] / "artifacts" / "Trainer" / "model_run" / run.name / split
            read = EventAccumulator(str(logs), {"tensors": 0}).Reload()
            for tag in read.Tags()["tensors"]:
                if tag.startswith("epoch_"):
                    values = {event.step: tensor_util.make_ndarray(event.tensor_proto) for event in read.Tensors(tag)}
                    points = {step: float(value) for step, value in values.items()}
                    found[f"{run.name}-{split} {tag}"] = points
    return found
