"""Numbers of versions in an object store: each is taken by one push at most, however many push in the same second."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.components.stored_models.blessed_record import Entry
from headrace.components.stored_models.push import push
from headrace.components.stored_models.push_record import PushRecord
from headrace.pipeline.kubeflow.pod.paths import PodPaths
from headrace.pipeline.kubeflow.pod.records import PUSHES
from headrace.pipeline.kubeflow.pod.state import present
from headrace.pipeline.kubeflow.pod.version_claims import (
    VersionTakenError,
    claimed,
    claimed_numbers,
    with_free_number,
)
from headrace.pipeline.kubeflow.store import Store

HOME = "s3://root/runs/trips"
URI, CLAIMS = f"{HOME}/serving/trips", f"{HOME}/serving/.trips-versions"


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


@pytest.mark.slow
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
        for number in map(str, range(10, 13)):
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


class Pod:
    """A pod with a folder of its own for all its tries, which pushes a model in the second `number`."""

    def __init__(self, store: Store, folder: Path, number: int) -> None:
        self._store, self._paths, self._number = store, PodPaths(str(folder)), number
        self._model, self._home = folder / "model", self._paths.local(HOME)
        self._model.mkdir(parents=True)
        (self._model / "saved_model.pb").write_text(folder.name)

    def push(self, meanwhile: Callable[[], object] = lambda: None) -> int:
        """What the Pusher does. meanwhile: what happens before the upload."""
        folder, record = self._paths.local(URI), self._home / "pushed.json"
        with present({"destination": str(folder), "push_record": str(record)}, self._paths, self._store):
            version = push(self._model, folder, lambda: self._number)
            entry = Entry(uri=str(self._home / "run-1/trainer/17/model"), blessed_at="2026-03-01")
            PushRecord.read(record).write(record, entry, version)
            meanwhile()
        return int(version.name)

    def noted(self) -> list[str]:
        """The versions that the record in the store names."""
        (models,) = PUSHES.read(f"{HOME}/pushed.json", self._store).models.values()
        return sorted(models)


@pytest.fixture
def number() -> int:
    return int(time.time()) + 3600


def test_pod_that_pushes_while_another_does_takes_the_next_number(store: Store, tmp_path: Path, number: int) -> None:
    pod, other = (Pod(store, tmp_path / name, number) for name in ("again", "other"))
    turns = iter((other.push, lambda: None))  # the other takes the same number, as neither has seen the other's
    waits: list[float] = []
    version = with_free_number(lambda: pod.push(next(turns)), waits.append)
    assert (version, len(waits)) == (number + 1, 1)
    assert store.text(f"{URI}/{number}/saved_model.pb") == "other"
    assert store.text(f"{URI}/{number + 1}/saved_model.pb") == "again"
    assert pod.noted() == [str(number), str(number + 1)]


def test_pod_takes_the_next_number_while_another_still_uploads(store: Store, tmp_path: Path, number: int) -> None:
    pod, waits = Pod(store, tmp_path / "again", number), list[float]()
    with contextlib.ExitStack() as other:

        def uploads() -> None:
            other.enter_context(claimed(URI, str(number), store))
            store.write(f"{URI}/{number}/assets/words", "all of them")

        turns = iter((uploads, lambda: None))
        version = with_free_number(lambda: pod.push(next(turns)), waits.append)
        assert (version, len(waits)) == (number + 1, 1)
        assert {*store.files(f"{URI}/{number}")} == {"assets/words"}
    assert pod.noted() == [str(number + 1)]


def test_first_push_of_a_pipeline_is_noted_though_two_pods_withdrew(store: Store, tmp_path: Path, number: int) -> None:
    pod, claim = Pod(store, tmp_path / "pod", number), f"{CLAIMS}/{number}-0123456789abcdef"
    turns = iter((lambda: store.write(claim, ""), lambda: None))
    version = with_free_number(lambda: pod.push(next(turns)), lambda _seconds: store.remove(claim))
    assert version == number
    assert store.text(f"{URI}/{number}/saved_model.pb") == "pod"
    assert pod.noted() == [str(number)]
    assert len(store.children(f"{HOME}/pushed")) == 1


def test_push_that_finds_no_number_gives_up() -> None:
    def push_in_vain() -> int:
        raise VersionTakenError("s3://a/1: another run pushed this version in the meantime; run again")

    waits: list[float] = []
    with pytest.raises(VersionTakenError, match="run again"):
        with_free_number(push_in_vain, waits.append)
    assert len(waits) == 4
