"""One run at a time in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from configs.errors import RunError
from pipeline.local.lock import locked

HOLD = """
import sys
from pathlib import Path
from pipeline.local.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def hold(folder: Path) -> subprocess.Popen[str]:
    """Another process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_folder_that_another_process_has_is_refused_with_a_way_out(tmp_path: Path) -> None:
    process = hold(tmp_path)
    with pytest.raises(RunError) as caught, locked(tmp_path):
        pass
    assert str(caught.value) == (
        f"another run of this pipeline is going on in {tmp_path}.\n"
        "  Wait for it, or give this one another `pipeline.name` or `pipeline.root`."
    )
    process.communicate()


def test_folder_is_free_again_when_the_holder_ends_or_is_killed(tmp_path: Path) -> None:
    hold(tmp_path).communicate()
    process = hold(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with locked(tmp_path):
        pass


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
