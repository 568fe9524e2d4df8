"""Candidates of several runs in one folder of a staging server, on this machine and in an object store."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command import locks_awaited_by, wait_until
from s3_proxy import s3_proxy
from s3_servers import S3Server

from headrace.common import store_lock
from headrace.common.errors import RunError
from headrace.common.store_lock import HeldLock, Timing
from headrace.components.canary.staging import Stage, staged


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text("graph")
    (folder / "variables/variables.index").write_text("weights")
    return folder


def overlapping(model: Path, folder: str, waiting: Callable[[], int]) -> list[list[str]]:
    """What several runs that stage at once find in the folder while their own version is there.

    waiting: returns how many threads wait for the one that calls it; it may count those that have waited before.
    """
    found, inside, ready = list[list[str]](), list[Stage](), threading.Barrier(3)

    def run() -> None:
        ready.wait()
        with staged(model, folder) as stage:
            inside.append(stage)
            assert wait_until(lambda: waiting() + len(found) >= 2 or len(inside) > len(found) + 1)
            names = [name for name in stage.folder.names() if name.isdecimal()]
            found.append([*names, str(stage.version), str(stage.is_there())])

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_runs_that_stage_at_once_in_a_folder_wait_for_each_other(model: Path, tmp_path: Path) -> None:
    found = overlapping(model, str(tmp_path / "staging"), lambda: locks_awaited_by(os.getpid()))
    assert [(there, is_there) for there, _, is_there in found] == [(own, "True") for _, own, _ in found]
    assert len(found) == 3
    assert [*(tmp_path / "staging").iterdir()] == []


def test_runs_that_stage_at_once_in_an_object_store_wait_for_each_other(
    model: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.enter(monkeypatch)
    asleep = set[int]()

    def sleep(seconds: float) -> None:
        asleep.add(threading.get_ident())
        time.sleep(seconds)

    monkeypatch.setattr(store_lock, "USUAL", Timing(poll=0.05, sleep=sleep))
    with s3_server.bucket("staging") as bucket:
        found = overlapping(model, "s3://staging/models/parcels", lambda: len(asleep - {threading.get_ident()}))
        assert [(there, is_there) for there, _, is_there in found] == [(own, "True") for _, own, _ in found]
        assert len(found) == 3
        assert [one.key for one in bucket.objects.all() if not one.key.endswith("/")] == []


def test_run_that_lost_the_lock_stages_nothing_in_an_object_store(
    model: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.enter(monkeypatch)
    passed = [0.0]
    monkeypatch.setattr(store_lock, "USUAL", Timing(clock=lambda: passed[0]))

    def suspended() -> float:
        passed[0] += 60
        return 17.0

    with s3_server.bucket("staging") as bucket:
        with (
            pytest.raises(RunError, match=r"deploy\.canary\.server\.folder: .*lock .*lost"),
            staged(model, "s3://staging/models/parcels", suspended),
        ):
            pass
        assert [one.key for one in bucket.objects.all() if not one.key.endswith("/")] == []


def test_lock_lost_in_the_middle_of_a_file_leaves_no_part_of_it_in_an_object_store(
    model: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.enter(monkeypatch)
    check = HeldLock.check
    (model / "variables/small").write_bytes(bytes(6 << 20))
    (model / "variables/large").write_bytes(bytes(22 << 20))
    monkeypatch.setattr("headrace.components.canary.staging._ObjectStore.remove", lambda _self, _version: None)
    sizes = {str(path.relative_to(model)): path.stat().st_size for path in model.rglob("*") if path.is_file()}
    found = list[int]()
    for passes in range(20):
        count = itertools.count()

        def lost(claim: HeldLock, count: itertools.count[int] = count, passes: int = passes) -> None:
            check(claim)
            if next(count) >= passes:
                raise RunError("the lock was lost")

        monkeypatch.setattr(HeldLock, "check", lost)
        with s3_server.bucket("staging") as bucket:
            try:
                with staged(model, "s3://staging/models", lambda: 17.0):
                    pass
            except RunError:
                is_whole = False
            else:
                is_whole = True
            there = {one.key.removeprefix("models/17/"): one.size for one in bucket.objects.filter(Prefix="models/17/")}
            assert {name: size for name, size in there.items() if not name.endswith("/")}.items() <= sizes.items()
            found.append(len(there.keys() & sizes.keys()))
        if is_whole:
            break
    assert found == sorted(found)
    assert {*found} == {0, 1, 2, 3, 4}


def test_part_of_a_file_is_not_sent_once_the_lock_is_lost(
    model: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.enter(monkeypatch)
    (model / "variables/large").write_bytes(bytes(45 << 20))
    passed, parts = [0.0], list[str]()
    monkeypatch.setattr(store_lock, "USUAL", Timing(clock=lambda: passed[0]))

    def before(method: str, path: str) -> None:
        if method == "PUT" and path.endswith("/large"):
            parts.append(path)
            passed[0] += 60

    with s3_server.bucket("staging") as bucket, s3_proxy(s3_server.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        proxy.before = before
        with pytest.raises(RunError, match="was lost"), staged(model, "s3://staging/models"):
            pytest.fail("it was staged")
        assert len(parts) == 1
        assert [one.key for one in bucket.objects.all() if not one.key.endswith("/")] == []


@pytest.mark.parametrize("is_lost", [False, True])
def test_server_sees_the_whole_graph_or_none_at_any_moment(
    model: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    s3_server.enter(monkeypatch)
    size = 22 << 20
    (model / "saved_model.pb").write_bytes(bytes(size))
    passed, seen = [0.0], set[int]()
    monkeypatch.setattr(store_lock, "USUAL", Timing(clock=lambda: passed[0]))

    with s3_server.bucket("staging") as bucket, s3_proxy(s3_server.url) as proxy:

        def before(method: str, path: str) -> None:
            seen.update(one.size for one in bucket.objects.all() if one.key.endswith("saved_model.pb"))
            if is_lost and method == "PUT" and path.endswith("copying-17"):
                passed[0] += 60

        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        proxy.before = before
        outcome = pytest.raises(RunError, match="was lost") if is_lost else contextlib.nullcontext()
        with outcome, staged(model, "s3://staging/models", lambda: 17.0) as stage:
            assert stage.is_there()
        assert seen == ({size} if not is_lost else set())
        assert [one.key for one in bucket.objects.all() if not one.key.endswith("/")] == []
