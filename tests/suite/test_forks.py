"""The process that forks programs for the tests, and those who ask it and die."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import forks
import pytest
from command import wait_until

SERVER = """
import socket, sys
import forks
server = forks.Server(socket.socket(fileno=int(sys.argv[1])), 0, list(sys.path))
asked = server.serve()
forks._end_as(lambda: forks._become({**asked, "address": sys.argv[2]}))
"""
"""That of the tests, without the imports that take it seconds."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    address = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        command = [sys.executable, "-c", SERVER, str(listener.fileno()), address]
        environment = {**os.environ, "PYTHONPATH": str(Path(forks.__file__).parent)}
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()], env=environment, stderr=subprocess.PIPE
        )
    with server:
        yield address
        assert server.stdin is not None
        server.stdin.close()
        assert server.wait() == 0, server.stderr and server.stderr.read().decode()


@pytest.mark.parametrize("asks", [False, True], ids=["before it asks", "before it is answered"])
def test_others_are_served_after_one_that_was_killed(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    program, ran = tmp_path / "program.py", tmp_path / "ran"
    program.write_text("import sys; from pathlib import Path; Path(sys.argv[1]).touch()")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as killed:
        killed.connect(address)
        if asks:
            asked = {
                "program": [str(program), [str(ran)], False],
                "cwd": str(tmp_path),
                "env": dict(os.environ),
                "targets": [0, 1, 2],
                "session": True,
            }
            with open(os.devnull, "r+b") as null:
                socket.send_fds(killed, [json.dumps(asked).encode()], [null.fileno()] * 3)
    assert not asks or wait_until(ran.exists)  # as a process does whose parent was killed right after the fork
    monkeypatch.setenv(forks.ADDRESS, address)
    monkeypatch.setenv(forks.ALL, "1")
    done = forks.run([sys.executable, str(program), str(tmp_path / "again")])
    assert (done.returncode, (tmp_path / "again").exists()) == (0, True), done.stderr


class _Freed:
    """Writes into a pipe when it is freed."""

    def __init__(self, pipe: int) -> None:
        self.pipe, self.itself = pipe, self

    def __del__(self) -> None:
        os.write(self.pipe, b"freed")


def test_a_child_leaves_the_garbage_of_its_parent_alone() -> None:
    gc.collect()
    reading, writing = os.pipe()
    gc.disable()
    try:
        _Freed(writing)
        pid = os.fork()
        if pid == 0:
            gc.collect()
            os._exit(0)
    finally:
        gc.enable()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 5)
    gc.collect()
    assert os.read(reading, 5) == b"freed"
    os.close(reading)
    os.close(writing)
