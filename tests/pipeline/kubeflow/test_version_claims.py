"""Numbers of versions in an object store: each is taken by one push at most, however many push in the same second."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.pod.version_claims import (
    VersionTakenError,
    claimed,
    claimed_numbers,
    with_free_number,
)
from headrace.pipeline.kubeflow.store import Store

URI = "s3://root/runs/trips/serving/trips"
CLAIMS = "s3://root/runs/trips/serving/.trips-versions"


def upload(store: Store, number: str, text: str) -> None:
    store.write(f"{URI}/{number}/saved_model.pb", text)


def test_number_is_kept_from_others_until_its_version_is_there(store: Store) -> None:
    with claimed(URI, "17", store):
        assert claimed_numbers(URI, store, 0) == {17}
        with pytest.raises(VersionTakenError, match=f"^{URI}/17: another run"), claimed(URI, "17", store):
            pytest.fail("two have it")
        with claimed(URI, "18", store):
            assert claimed_numbers(URI, store, 0) == {17, 18}
        upload(store, "17", "a")
    assert claimed_numbers(URI, store, 0) == set()
    with pytest.raises(VersionTakenError), claimed(URI, "17", store):
        pytest.fail("its version is replaced")
    assert store.children(URI) == ["17"]  # servers see no claims


def test_of_many_at_once_one_at_most_has_a_number_and_none_is_left_claimed(store: Store) -> None:
    ready = threading.Barrier(4)

    def push(number: str) -> bool:
        ready.wait()
        try:
            with claimed(URI, number, store):
                upload(store, number, "a")
                return True
        except VersionTakenError:
            return False

    with ThreadPoolExecutor(4) as threads:
        for number in map(str, range(10, 15)):
            assert sum(threads.map(push, [number] * 4)) <= 1
    assert store.files(CLAIMS) == {}


def test_number_of_a_killed_push_is_not_used_again_until_its_claim_is_old(store: Store) -> None:
    store.write(f"{CLAIMS}/17-0123456789abcdef", "")
    store.write(f"{CLAIMS}/notes.txt", "of somebody")
    with pytest.raises(VersionTakenError), claimed(URI, "17", store):
        pytest.fail("two have it")
    assert claimed_numbers(URI, store, time.time() - 3600) == {17}
    assert claimed_numbers(URI, store, time.time() + 3600) == set()
    assert {*store.files(CLAIMS)} == {"notes.txt"}


def test_pod_that_pushes_while_another_does_takes_the_next_number(store: Store, tmp_path: Path) -> None:
    number = int(time.time()) + 3600  # so that the clock does not move on to another one

    def push(pod: Path, *, other_first: bool) -> int:
        """What the Pusher does between the two ends of `present`."""
        paths = PodPaths(str(pod))
        folder = paths.local(URI)
        with present({"destination": str(folder)}, paths, store):
            folder.mkdir(parents=True, exist_ok=True)
            names = [path.name.removeprefix(".pushing-") for path in folder.iterdir()]
            version = max([number, *(int(name) + 1 for name in names)])
            (folder / str(version)).mkdir()
            (folder / str(version) / "saved_model.pb").write_text(pod.name)
            if other_first:  # it has the same number, as neither has seen the other's
                assert push(tmp_path / "other", other_first=False) == version
        return version

    turns = iter((True, False))
    waits: list[float] = []
    pods = iter((tmp_path / "first", tmp_path / "again"))
    version = with_free_number(lambda: push(next(pods), other_first=next(turns)), waits.append)
    assert (version, len(waits)) == (number + 1, 1)
    assert store.text(f"{URI}/{number}/saved_model.pb") == "other"
    assert store.text(f"{URI}/{number + 1}/saved_model.pb") == "again"


def test_push_that_finds_no_number_gives_up() -> None:
    def push() -> int:
        raise VersionTakenError("s3://a/1: another run pushed this version in the meantime; run again")

    waits: list[float] = []
    with pytest.raises(VersionTakenError, match="run again"):
        with_free_number(push, waits.append)
    assert len(waits) == 4
