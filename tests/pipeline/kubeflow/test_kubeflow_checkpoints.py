"""Checkpoints on their way between a pod's disk and the object store, a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command import wait_until
from s3_proxy import s3_proxy
from s3_servers import S3Server

from headrace.pipeline.kubeflow.pod.checkpoints import mirrored
from headrace.pipeline.kubeflow.store import CHUNK, Store

pytestmark = pytest.mark.slow

URI = "minio://bucket/taxi/checkpoints"
WORK, OTHER, ANOTHER = "a" * 8, "b" * 8, "c" * 8


@pytest.fixture
def store(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    s3_server.enter(monkeypatch)
    with s3_server.bucket("bucket"):
        yield Store({"endpoint": s3_server.url})


def written(folder: Path, work: str, *batches: int) -> None:
    (folder / work).mkdir(parents=True, exist_ok=True)
    for batch in batches:
        (folder / work / "whole").write_text(str(batch))
        (folder / work / "whole").rename(folder / work / f"batch-{batch:012}-1000001.npz")


def numbers(store: Store, work: str = WORK) -> list[int]:
    return [int(name.split("-")[1]) for name in store.files(URI) if name.startswith(work)]


def test_a_checkpoint_is_in_the_store_while_training_continues(store: Store, tmp_path: Path) -> None:
    with mirrored(tmp_path, URI, store):
        written(tmp_path, WORK, 40)
        (tmp_path / WORK / "batch-000000000080-1000001.partial").write_text("half of it")
        assert wait_until(lambda: numbers(store) == [40])
        written(tmp_path, WORK, 80)
        assert wait_until(lambda: numbers(store) == [40, 80])


def test_the_next_pod_has_the_latest_of_each_work_and_the_store_what_the_pod_keeps(
    store: Store, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with mirrored(first, URI, store):
        written(first, WORK, 40, 80)
        written(first, OTHER, 7)
    with mirrored(second, URI, store):
        found = {str(path.relative_to(second)): path.read_text() for path in second.glob("*/*")}
        assert sorted(found.values()) == ["7", "80"]
        written(second, ANOTHER, 1)
        assert wait_until(lambda: numbers(store, ANOTHER) == [1])
        written(second, ANOTHER, 2)  # uploaded by a scan after the one above, which has removed whatever it removes
        assert wait_until(lambda: numbers(store, ANOTHER) == [1, 2])
        assert numbers(store) == [40, 80]  # an older one stays as long as there is nothing newer
        written(second, WORK, 120)
        assert wait_until(lambda: numbers(store) == [80, 120])
    assert numbers(store, OTHER) == [7]


def test_what_a_finished_training_removes_is_removed_in_the_store(store: Store, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with mirrored(first, URI, store):
        written(first, WORK, 40, 80)
    with mirrored(second, URI, store):
        for path in (second / WORK).iterdir():
            path.unlink()
        (second / WORK).rmdir()
    assert numbers(store) == []


def test_the_last_checkpoint_is_copied_though_training_ends_with_an_error(store: Store, tmp_path: Path) -> None:
    def train() -> None:
        with mirrored(tmp_path, URI, store):
            written(tmp_path, WORK, 40)
            raise SystemExit(143)

    with pytest.raises(SystemExit):
        train()
    assert numbers(store) == [40]


@pytest.mark.slow
def test_a_store_that_fails_is_reported_once_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "headrace")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "only-for-this-test")
    monkeypatch.setattr("headrace.pipeline.kubeflow.store.ATTEMPTS", 2)
    with mirrored(tmp_path, URI, Store({"endpoint": "http://127.0.0.1:9"})):
        written(tmp_path, WORK, 40)
    reported = log.messages
    assert len(reported) == 1
    assert reported[0].startswith(f"checkpoint: not stored in {URI}, ")


def test_a_checkpoint_of_which_half_was_fetched_stays_whole_in_the_store(
    s3_server: S3Server, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.pipeline.kubeflow.store.ATTEMPTS", 2)
    first, second, name = tmp_path / "first", tmp_path / "second", f"{WORK}/batch-000000000040-1000001.npz"
    with mirrored(first, URI, store):
        (first / WORK).mkdir(parents=True)
        (first / name).write_bytes(b"x" * 3 * CHUNK)
    with s3_proxy(s3_server.url) as proxy:
        asked = 0

        def fail(method: str, path: str) -> str | None:
            nonlocal asked
            asked += method == "GET" and path.endswith(".npz")
            return "503 Slow Down" if asked > 1 else None

        proxy.before = fail
        with mirrored(second, URI, Store({"endpoint": proxy.url})):
            proxy.before = lambda _method, _path: None
            assert not list(second.rglob("*.npz"))
    assert asked > 1
    assert store.listing(URI)[name].size == 3 * CHUNK
