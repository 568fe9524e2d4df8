"""The lock in an object store: one holder at a time, killed holders, holders that take long, and outages."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from s3_proxy import s3_proxy
from s3_servers import S3Server

from headrace.common.errors import RunError
from headrace.common.storage import filesystems
from headrace.common.storage.filesystems import filesystem, parse_location
from headrace.common.store_lock import HeldLock, Timing, held


@dataclass
class Time:
    """Seconds that pass only while somebody sleeps."""

    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def timing(self, poll: float = 1.0) -> Timing:
        return Timing(poll=poll, clock=lambda: self.now, sleep=self.sleep)


class Store:
    """A folder of this machine, which can fail, and answer slowly."""

    def __init__(self, time: Time) -> None:
        self.time, self.fails, self.seconds = time, False, 0.0
        self._system = fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        self.time.now += self.seconds
        if self.fails:
            raise OSError("the store does not answer")
        return getattr(self._system, name)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(time: Time) -> Store:
    return Store(time)


@pytest.fixture
def system(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Any:
    s3_server.enter(monkeypatch)
    with s3_server.bucket("locks"):
        yield filesystem(parse_location("s3://locks"))


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


def claims(system: Any) -> list[str]:
    return [one.base_name for one in system.get_file_info(fs.FileSelector("locks")) if one.type == fs.FileType.File]


def test_changes_of_many_at_once_are_all_there(system: Any) -> None:
    with system.open_output_stream("locks/count", compression=None) as stream:
        stream.write(b"0")
    ready = threading.Barrier(4)

    def change() -> None:
        ready.wait()
        for _ in range(3):
            with held(system, "locks/.lock", timing=Timing(poll=0.02)):
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
    system: Any, time: Time, log: pytest.LogCaptureFixture
) -> None:
    with system.open_output_stream("locks/.lock-0123", compression=None) as stream:
        stream.write(b"")
    with held(system, "locks/.lock", "somebody is here", time.timing(poll=10)):
        assert 40 < time.now < 60
        assert len(claims(system)) == 1
    assert claims(system) == []
    first, second = warnings(log)
    assert first == "somebody is here"
    assert "locks/.lock-0123" in second
    assert "not renewed for 40 s" in second


def test_claim_that_is_renewed_is_respected_however_long_it_takes(tmp_path: Path, store: Store, time: Time) -> None:
    first = HeldLock(store, f"{tmp_path}/.lock", time.timing())
    assert not first.others()
    (claim,) = tmp_path.iterdir()
    os.utime(claim, (time.now, time.now))

    def sleep(seconds: float) -> None:
        time.now += seconds
        if time.now > 400:
            first.withdraw()
        elif time.now > claim.stat().st_mtime + 20:
            first.renew()
            os.utime(claim, (time.now, time.now))

    with held(store, f"{tmp_path}/.lock", timing=Timing(clock=lambda: time.now, sleep=sleep)) as second:
        assert time.now > 400
        second.check()


def test_holder_that_cannot_renew_its_claim_is_stopped_before_others_remove_it(
    tmp_path: Path, store: Store, time: Time
) -> None:
    timing = time.timing()
    with held(store, f"{tmp_path}/.lock", timing=timing) as claim:
        store.fails = True
        time.sleep(24)
        claim.renew()
        claim.check()
        time.sleep(2)
        with pytest.raises(RunError, match=r"\.lock was lost.* 26 seconds.* run again"):
            claim.check()
        assert timing.trust < timing.lease


def test_claim_that_others_may_have_removed_is_not_written_again(tmp_path: Path, store: Store, time: Time) -> None:
    with held(store, f"{tmp_path}/.lock", timing=time.timing()) as claim:
        (file,) = tmp_path.iterdir()
        file.unlink()
        time.sleep(41)
        claim.renew()
        assert [*tmp_path.iterdir()] == []
        with pytest.raises(RunError, match="was lost"):
            claim.check()


def test_renewal_that_arrives_too_late_does_not_bring_the_lock_back(tmp_path: Path, store: Store, time: Time) -> None:
    with held(store, f"{tmp_path}/.lock", timing=time.timing()) as claim:
        time.sleep(5)
        store.seconds = 50
        claim.renew()
        store.seconds = 0
        claim.renew()
        with pytest.raises(RunError, match="was lost"):
            claim.check()
    assert [*tmp_path.iterdir()] == []


def test_renewed_claim_may_be_written_under(tmp_path: Path, store: Store, time: Time) -> None:
    with held(store, f"{tmp_path}/.lock", timing=time.timing()) as claim:
        for _ in range(4):
            time.sleep(24)
            claim.renew()
            claim.check()


def test_claim_that_cannot_be_removed_fails_no_finished_work_and_hides_no_error(
    tmp_path: Path, store: Store, time: Time, log: pytest.LogCaptureFixture
) -> None:
    def work_in_outage() -> None:
        store.fails = True
        raise ZeroDivisionError

    with held(store, f"{tmp_path}/.lock", timing=time.timing()):
        store.fails = True
    store.fails = False
    with pytest.raises(ZeroDivisionError), held(store, f"{tmp_path}/.other", timing=time.timing()):
        work_in_outage()
    for said, name in zip(warnings(log), (".lock-", ".other-"), strict=True):
        assert f"{tmp_path}/{name}" in said
        assert "cannot be removed" in said
        assert "40 seconds" in said


def test_lock_is_given_up_after_an_error_and_locks_of_other_names_are_others(system: Any) -> None:
    with held(system, "locks/.other"):
        with pytest.raises(ZeroDivisionError), held(system, "locks/.lock"):
            raise ZeroDivisionError
        with held(system, "locks/.lock"):
            assert len(claims(system)) == 2
    assert claims(system) == []


def test_process_that_waits_too_long_gives_up_and_names_the_holder_and_the_way_out(
    tmp_path: Path, store: Store, time: Time
) -> None:
    first = HeldLock(store, f"{tmp_path}/.lock", time.timing())
    assert not first.others()

    def sleep(seconds: float) -> None:
        time.now += seconds
        first.renew()

    waiting = Timing(poll=20, patience=600, clock=lambda: time.now, sleep=sleep)
    with (
        pytest.raises(RunError, match=rf"lock {tmp_path}/\.lock for 10 minutes") as given_up,
        held(store, f"{tmp_path}/.lock", timing=waiting),
    ):
        pytest.fail("two hold the lock")
    assert f"process {os.getpid()} on {socket.gethostname()}, since 20" in str(given_up.value)
    assert "run again" in str(given_up.value)
    assert 600 < time.now < 700
    first.check()  # it was not disturbed
    (claim,) = tmp_path.iterdir()
    assert str(claim) in str(given_up.value)


def test_time_in_which_the_machine_was_suspended_counts() -> None:
    """Where namespaces are allowed, in one of a machine that was suspended for 5,000 seconds."""
    suspended = ["unshare", "--user", "--map-root-user", "--time", "--boottime", "5000", "--fork"]
    if subprocess.run([*suspended, "true"], capture_output=True, check=False).returncode:
        suspended = []
    program = (
        "from headrace.common.store_lock import USUAL; print(open('/proc/uptime').read().split()[0], USUAL.clock())"
    )
    done = subprocess.run([*suspended, sys.executable, "-c", program], capture_output=True, text=True, check=True)
    uptime, seconds = map(float, done.stdout.split())
    assert uptime - 1 < seconds < uptime + 60


def test_text_of_a_foreign_claim_reaches_no_terminal_as_it_is(tmp_path: Path, store: Store, time: Time) -> None:
    (tmp_path / ".lock-foreign").write_bytes(b"\x1b[31m\xff" + b"x" * 10_000)

    def sleep(seconds: float) -> None:
        time.now += seconds
        os.utime(tmp_path / ".lock-foreign", (time.now, time.now))

    waiting = Timing(poll=20, patience=60, clock=lambda: time.now, sleep=sleep)
    with pytest.raises(RunError) as given_up, held(store, f"{tmp_path}/.lock", timing=waiting):
        pytest.fail("two hold the lock")
    assert "\x1b" not in str(given_up.value)
    assert len(str(given_up.value)) < 1000


def test_request_under_a_lock_has_ended_before_others_may_have_it() -> None:
    usual = Timing()
    request = filesystems.PROMPT_CONNECT_SECONDS + filesystems.PROMPT_READ_SECONDS
    assert usual.trust + filesystems.PROMPT_ATTEMPTS * request < usual.lease
    assert usual.renew + filesystems.PROMPT_ATTEMPTS * request < usual.trust


def test_request_under_a_lock_is_tried_as_often_as_there_is_time_for(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.enter(monkeypatch)
    with s3_server.bucket("locks"), s3_proxy(s3_server.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        location, counts = parse_location("s3://locks/a"), []
        proxy.before = lambda method, _path: None if method == "HEAD" else "503 Slow Down"
        for system in (filesystems.promptly(location), filesystem(location)):
            asked = len(proxy.asked)
            with (
                pytest.raises(OSError, match="locks"),
                system.open_output_stream("locks/a", compression=None) as stream,
            ):
                stream.write(b"x")
            counts.append(sum(method != "HEAD" for method, _ in proxy.asked[asked:]))
    assert counts == [filesystems.PROMPT_ATTEMPTS, filesystems.ATTEMPTS]
