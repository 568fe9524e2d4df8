"""One run at a time in a folder, and nothing left at work of the one before."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command import PATIENCE, locks_awaited_by, wait_until

from headrace.common.errors import RunError
from headrace.common.locks import hold, wait_and_hold, wait_until_free
from headrace.pipeline import folders
from headrace.pipeline.folders import in_progress, locked, processes_file

HOLD = """
import sys
from pathlib import Path
from headrace.pipeline.folders import locked
with locked(Path(sys.argv[1]), *sys.argv[2:]):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(folder: Path, *what: str) -> subprocess.Popen[str]:
    """Another process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_folder_that_another_process_has_is_refused_with_a_way_out(tmp_path: Path) -> None:
    process = holder(tmp_path)
    with pytest.raises(RunError) as caught, locked(tmp_path):
        pass
    message, way_out = str(caught.value).split("\n")
    assert message.startswith("another run of this pipeline")
    assert str(tmp_path) in message
    assert "`pipeline.name` or `pipeline.root`" in way_out
    process.communicate()


@pytest.mark.slow
def test_refusal_says_what_holds_the_folder_now(tmp_path: Path) -> None:
    for what in ("`headrace prune`", "another run"):
        process = holder(tmp_path, what)
        with pytest.raises(RunError, match=f"^{what} of this pipeline is in progress"), locked(tmp_path, "a third"):
            pass
        process.communicate()


def test_folder_is_free_again_when_the_holder_ends_or_is_killed(tmp_path: Path) -> None:
    holder(tmp_path).communicate()
    process = holder(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with locked(tmp_path):
        pass


def test_who_asks_whether_a_lock_is_held_keeps_nobody_from_it(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    with (tmp_path / ".lock").open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        threading.Timer(0.01, fcntl.flock, (asking, fcntl.LOCK_UN)).start()
        with locked(tmp_path):
            assert in_progress(tmp_path)
    assert not in_progress(tmp_path)


def test_folder_is_free_again_after_an_error_inside(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path), pytest.raises(RunError), locked(tmp_path):
        pass


def test_other_folders_are_not_held(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with locked(tmp_path / "a"), locked(tmp_path / "b"):
        assert (tmp_path / "b" / ".lock").exists()


def test_program_started_under_the_lock_does_not_keep_it(tmp_path: Path) -> None:
    with locked(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with locked(tmp_path):
            pass
    finally:
        child.communicate(b"\n")


WORK = """
import os, subprocess, sys
from pathlib import Path
from headrace.common.locks import adopt, adopted_descriptors, hold
from headrace.pipeline.folders import locked, processes_file
home, handed_on = Path(sys.argv[1]), sys.argv[2] == "handed on"
with locked(home), hold(processes_file(home), str) as working:
    adopt(os.dup(working.fileno()))
    child = [sys.executable, "-c", "print('at work', flush=True); input()"]
    subprocess.Popen(child, pass_fds=adopted_descriptors() if handed_on else ())
sys.stdout.flush()
os._exit(0)
"""


def leave_at_work(folder: Path, *, handed_on: bool) -> subprocess.Popen[str]:
    """A command that is gone, but for what it started; that ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, str(folder), "handed on" if handed_on else "kept"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    process.wait()
    return process


def test_folder_where_a_killed_commands_processes_work_on_is_refused_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "PATIENCE_SECONDS", 0.05)
    left = leave_at_work(tmp_path, handed_on=True)
    with pytest.raises(RunError) as caught, locked(tmp_path):
        pass
    message, way_out = str(caught.value).split("\n")
    assert "killed run" in message
    assert str(tmp_path) in message
    assert f"`fuser {tmp_path / '.at-work'}`" in way_out
    left.communicate("\n")
    assert wait_until_free(processes_file(tmp_path), 600)


def test_folder_is_had_as_soon_as_they_have_ended(tmp_path: Path) -> None:
    left = leave_at_work(tmp_path, handed_on=True)
    assert not wait_until_free(processes_file(tmp_path), 0)
    threading.Timer(0.05, left.communicate, ["\n"]).start()
    with locked(tmp_path), hold(processes_file(tmp_path), lambda: "still at work"):
        pass


def test_program_that_was_not_handed_the_hold_does_not_keep_it(tmp_path: Path) -> None:
    left = leave_at_work(tmp_path, handed_on=False)
    with locked(tmp_path), hold(processes_file(tmp_path), lambda: "still at work"):
        pass
    left.communicate("\n")


def test_who_waits_for_a_lock_says_so_and_who_does_not_wait_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, got = tmp_path / "lock", threading.Event()

    def wait() -> None:
        with wait_and_hold(file, "WAITING"):
            got.set()

    with wait_and_hold(file, "FREE"):
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert wait_until(lambda: locks_awaited_by(os.getpid()) == 1 or got.is_set())
        assert not got.is_set()
    assert got.wait(PATIENCE)
    waiter.join()
    assert [record.getMessage() for record in caplog.records] == ["WAITING"]
