"""What goes wrong with files and objects, each reported with its path and the way out."""

import gzip
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from messages import says
from stores import Bucket, breaking_proxy, message, refusing_server, tls_server

from headrace.common.storage import filesystems
from headrace.common.storage import reader as reader_module
from headrace.common.storage.files import (
    arrow_file,
    checksum,
    open_file,
    reading,
    resolve,
    stat,
    stats,
)
from headrace.components.sources import streams as files_module
from headrace.components.sources.streams import line_at, open_stream, read_fully

CLOSED = "http://127.0.0.1:1"


def test_wrong_paths_are_reported(s3_bucket: Bucket) -> None:
    url = s3_bucket.url
    s3_bucket.put("d/a.csv", "a")
    expected = {
        f"{url}/d/*.txt": f"no file matches '{url}/d/*.txt'\n  The nearest folder that exists is {url}/d",
        f"{url}/x/y/z.csv": f"no file matches '{url}/x/y/z.csv'\n  The nearest folder that exists is {url}",
        f"{url}/d": f"{url}/d: is a folder, not an object\n  For its objects, write {url}/d/*",
        url: f"{url}: is a folder, not an object\n  For its objects, write {url}/*",
        "s3://none/*.csv": f"s3://none: there is no bucket 'none' on {s3_bucket.server}\n  Correct the name",
        "s3://none/a.csv": f"s3://none: there is no bucket 'none' on {s3_bucket.server}\n  Correct the name",
        "s3://": "'s3://' does not name a bucket\n  Write s3://bucket/key",
        "s3://b*/a": "'s3://b*/a' does not name a bucket\n  Write s3://bucket/key",
        f"{url}//a": f"{url}//a: cannot be read: Empty path component in path {url[5:]}//a\n"
        "  Rename the object, or narrow the pattern",
        "ftp://host/a": "ftp://host/a: ftp:// is not supported\n"
        "  A path is local or starts with pkg://, s3://, gs://, minio://",
    }
    found = {path: message(partial(resolve, path)) for path in expected}
    assert {path: text for path, text in found.items() if not text.startswith(expected[path])} == {}


def test_of_several_wrong_paths_the_first_is_reported(s3_bucket: Bucket) -> None:
    good = s3_bucket.put("a.csv", "a")
    paths = [good, *(f"{s3_bucket.url}/{name}.csv" for name in range(40))]
    assert message(lambda: resolve(paths)).startswith(f"no file matches '{paths[1]}'")
    assert message(lambda: stats(paths)) == f"{paths[1]}: the object does not exist"


def test_wrong_paths_on_google_cloud_storage_are_reported(gcs_bucket: Bucket) -> None:
    gcs_bucket.put("d/a.csv", "a")
    url = gcs_bucket.url
    expected = {
        f"{url}/d/*.txt": f"no file matches '{url}/d/*.txt'\n  The nearest folder that exists is {url}/d",
        f"{url}/d": f"{url}/d: is a folder, not an object\n  For its objects, write {url}/d/*",
        "gs://none/*.csv": "gs://none: there is no bucket 'none' on Google Cloud Storage\n  Correct the name",
        "gs://none/a.csv": "gs://none: there is no bucket 'none' on Google Cloud Storage\n  Correct the name",
    }
    found = {path: message(partial(resolve, path)) for path in expected}
    assert {path: text for path, text in found.items() if not text.startswith(expected[path])} == {}


@pytest.mark.parametrize("call", [stat, open_file, checksum, arrow_file])
def test_an_object_that_is_not_there_is_reported(bucket: Bucket, call: Callable[[str], object]) -> None:
    path = f"{bucket.url}/none.csv"
    assert message(lambda: call(path)) == f"{path}: the object does not exist"


def test_denied_access_is_reported_with_where_credentials_come_from(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = s3_bucket.put("a.csv", "a")
    filesystems._s3.cache_clear()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = (
        "{}: access is denied\n  Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from the profiles"
        " in ~/.aws (AWS_PROFILE), or from the machine's role; they must allow s3:GetObject and s3:ListBucket"
    )
    for call in (resolve, stat, open_file):
        assert message(partial(call, path)) == expected.format(path)
    filesystems._s3.cache_clear()


def test_a_token_that_expired_is_reported(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    with refusing_server(400, "ExpiredToken") as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        assert "s3://some/*.csv: access is denied\n" in message(lambda: resolve("s3://some/*.csv"))
        assert "Have the credentials expired? Credentials come from" in message(lambda: stat("s3://some/a.csv"))


@pytest.mark.parametrize(
    ("status", "code", "reported"),
    [
        (403, "AccessDenied", "access is denied"),
        (403, "InvalidAccessKeyId", "access is denied"),
        (403, "SignatureDoesNotMatch", "access is denied"),
        (403, "ExpiredToken", "access is denied"),
        (401, "", "access is denied"),
        (400, "Odd", "cannot be read: {} answers: "),
        (500, "InternalError", "cannot be read: {} answers: "),
        (503, "SlowDown", "cannot be read: {} answers: "),
    ],
)
def test_what_a_server_refuses_is_reported(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, status: int, code: str, reported: str
) -> None:
    monkeypatch.setattr(filesystems, "ATTEMPTS", 1)
    with refusing_server(status, code) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        for path in ("s3://some/*.csv", "s3://some/a.csv"):
            found = message(partial(resolve, path)).splitlines()[0]
            assert found.startswith(f"{path}: {reported.format(url)}"), path


def test_a_server_that_cannot_be_reached_is_reported(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", CLOSED)
    reported = message(lambda: resolve("s3://some/*.csv"))
    assert says(reported, f"s3://some/*.csv: {CLOSED} cannot be reached: …connect…\n…AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://nowhere.invalid:9000")
    assert "http://nowhere.invalid:9000 cannot be reached: Could" in message(lambda: resolve("s3://some/*.csv"))


def test_google_that_cannot_be_reached_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "GOOGLE_SECONDS", 1)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", CLOSED)
    reported = message(lambda: stat("gs://some/a.csv"))
    assert says(reported, "gs://some/a.csv: Google Cloud Storage cannot be reached: …connect…\n…network")
    assert "AWS" not in reported


def test_minio_needs_an_endpoint(s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    path = s3_bucket.put("a.csv", "a")
    assert resolve(path.replace("s3://", "minio://")) == [path]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    reported = message(lambda: resolve("minio://some/a.csv"))
    assert says(reported, "minio://some/a.csv: …MinIO server …\n  Set AWS_ENDPOINT_URL")


@pytest.mark.parametrize("url", ["http://me:secret@host:1", "ftp://host", "http://"])
def test_a_bad_endpoint_is_reported_without_what_may_be_secret(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    reported = message(lambda: resolve("s3://some/*.csv"))
    assert reported.startswith("AWS_ENDPOINT_URL is not the URL of a server")
    assert "secret" not in reported


def test_a_server_whose_certificate_nobody_signed_is_not_read_from(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(filesystems, "ATTEMPTS", 1)
    with tls_server(tmp_path) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://127.0.0.1:{port}")
        reported = message(lambda: resolve("s3://some/*.csv"))
    assert f"https://127.0.0.1:{port} is not accepted: SSL" in reported


@pytest.mark.parametrize("change", ["vanish", "shrink", "rewrite"])
def test_an_object_that_changes_while_it_is_read_is_reported(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(reader_module, "LARGEST", 1 << 17)
    content = b"0123456789" * 60_000
    path = bucket.put("f.csv", content)
    with open_file(path) as stream:
        assert stream.read(1000) == content[:1000]
        if change == "vanish":
            bucket.remove("f.csv")
        else:
            bucket.put("f.csv", b"short" if change == "shrink" else content[::-1])
        reported = message(lambda: read_fully(stream, len(content)))
    how = "vanished" if change == "vanish" else "changed"
    assert says(reported, f"{path}: the object {how} while …\n  Run again")


@pytest.mark.parametrize("rows", [1, 3000], ids=["shorter", "longer"])
def test_an_object_that_is_replaced_before_its_only_request_is_reported(bucket: Bucket, rows: int) -> None:
    path = bucket.put("f.csv", b"0123456789\n" * 200)
    with open_file(path) as stream:
        bucket.put("f.csv", b"9876543210\n" * rows)
        reported = message(stream.read)
    assert says(reported, f"{path}: the object changed while …\n  Run again")


@pytest.mark.parametrize("change", ["vanish", "grow", "replace"])
@pytest.mark.parametrize("name", ["f.csv", "f.csv.gz"])
def test_a_local_file_that_changes_while_it_is_read_is_reported(tmp_path: Path, change: str, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(b"a\n1\n" * 1000) if name.endswith("gz") else b"a\n1\n" * 1000)

    def read() -> None:
        with open_stream(str(file)) as stream:
            stream.read(100)
            if change == "grow":
                with open(file, "ab") as more:
                    more.write(b"9")
            else:
                file.unlink()
            if change == "replace":
                file.write_bytes(b"a\n1\n" * 1000)
            while stream.read(100):
                pass

    how = "vanished" if change == "vanish" else "changed"
    assert says(message(read), f"{file}: the file {how} while …\n  Run again")


def test_an_object_that_vanishes_from_pyarrows_own_readers_is_reported(s3_bucket: Bucket) -> None:
    path = s3_bucket.put("f.parquet", b"0123456789" * 60_000)
    file = arrow_file(path)
    s3_bucket.remove("f.parquet")

    def read() -> None:
        with reading(path):
            file.read(100)

    assert says(message(read), f"{path}: the object changed or vanished …connection …\n  Run again")


def test_a_connection_that_breaks_is_reported_with_how_far_it_came(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystems, "ATTEMPTS", 2)
    monkeypatch.setattr(files_module, "CHUNK", 1000)
    path = s3_bucket.put("f.csv", b"0123456789" * 100_000)
    with breaking_proxy(s3_bucket.server, after=300_000) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        reported = message(lambda: line_at(path, 10_000_000))
    assert re.match(rf"{path}: reading failed after [1-9][0-9]*,[0-9]* of 1,000,000 bytes: \S", reported)
    assert "AWS Error" not in reported
    assert "curl" not in reported


@pytest.mark.parametrize("error", [IsADirectoryError(21, "Is a directory"), OSError(5, "Input/output error")])
def test_errors_of_local_reads_name_the_file(error: OSError) -> None:
    def read() -> None:
        with reading("/data/a.csv"):
            raise error

    assert message(read) == f"/data/a.csv: cannot be read: {error.strerror}"
