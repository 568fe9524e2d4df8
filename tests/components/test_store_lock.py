"""The lock in an object store: one holder at a time, killed holders, and holders that take long."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from s3_servers import S3Server

from headrace.components.example_gen.remote import store_lock
from headrace.components.example_gen.remote.filesystems import filesystem, parse_location
from headrace.components.example_gen.remote.store_lock import held


@pytest.fixture
def system(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    s3_server.enter(monkeypatch)
    monkeypatch.setattr(store_lock, "POLL_SECONDS", 0.02)
    with s3_server.bucket("locks"):
        yield filesystem(parse_location("s3://locks"))


def claims(system: Any) -> list[str]:
    from pyarrow import fs

    return [one.base_name for one in system.get_file_info(fs.FileSelector("locks")) if one.type == fs.FileType.File]


def test_changes_of_many_at_once_are_all_there(system: Any) -> None:
    with system.open_output_stream("locks/count", compression=None) as stream:
        stream.write(b"0")
    ready = threading.Barrier(4)

    def change() -> None:
        ready.wait()
        for _ in range(3):
            with held(system, "locks/.lock"):
                with system.open_input_stream("locks/count", compression=None) as stream:
                    number = int(stream.read())
                with system.open_output_stream("locks/count", compression=None) as stream:
                    stream.write(f"{number + 1}".encode())

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with system.open_input_stream("locks/count", compression=None) as stream:
        assert int(stream.read()) == 12
    assert claims(system) == ["count"]


def test_claim_of_a_killed_process_is_removed_once_it_is_old(
    system: Any, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store_lock, "LEASE_SECONDS", 1.0)
    with system.open_output_stream("locks/.lock-0123", compression=None) as stream:
        stream.write(b"")
    start = time.monotonic()
    with held(system, "locks/.lock", "somebody is here"):
        assert time.monotonic() - start > 1.0
        assert len(claims(system)) == 1
    assert claims(system) == []
    warnings = [record.getMessage() for record in log.records if record.levelno == logging.WARNING]
    assert warnings[0] == "somebody is here"
    assert "locks/.lock-0123" in warnings[1]


def test_claim_that_is_renewed_is_respected_however_long_it_takes(system: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_lock, "LEASE_SECONDS", 4.0)
    monkeypatch.setattr(store_lock, "RENEW_SECONDS", 0.5)
    order, inside = list[str](), threading.Event()

    def first() -> None:
        with held(system, "locks/.lock"):
            inside.set()
            time.sleep(8)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    with held(system, "locks/.lock"):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_lock_is_given_up_after_an_error_and_locks_of_other_names_are_others(system: Any, tmp_path: Path) -> None:
    with held(system, "locks/.other"):
        with pytest.raises(ZeroDivisionError), held(system, "locks/.lock"):
            raise ZeroDivisionError
        with held(system, "locks/.lock"):
            assert len(claims(system)) == 2
    assert claims(system) == []
