"""Beam's pool of Python workers with mounts of its own, whose workers are forked there with their imports done.

    Forked([sys.executable, "flink_workers.py", "8099", str(folder), ...])

Its folders, which it is given after its port, are empty ones of its own.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forks
from apache_beam.runners.worker import worker_pool_main

WORKER = "worker"
NEW_MOUNTS, NEW_USERS = 0x20000, 0x10000000
"""The kernel's CLONE_NEWNS and CLONE_NEWUSER."""


class Started(forks.Forked):
    """What the pool starts, `python -c PROGRAM`, which becomes this file with that program."""

    def __init__(self, command: Sequence[str], **settings: Any) -> None:
        python, _, program = command
        assert python == "python"
        super().__init__([sys.executable, __file__, WORKER, program], **settings)


def main(port: str, *hidden: str) -> None:
    """Listen at this port until it is killed."""
    _leave_mounts()
    for folder in hidden:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    os.environ.update({forks.ADDRESS: _serve(), forks.ALL: "1"})
    worker_pool_main.subprocess.Popen = Started
    worker_pool_main.main([f"--service_port={port}"])


def _leave_mounts() -> None:
    """Have mounts of this process's own, as root of a user namespace: Python 3.11 has no `os.unshare`."""
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS | NEW_USERS):
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")


def _serve() -> str:
    """Start a process that forks programs with these mounts, and ends with this one. Returns its address."""
    place = Path(tempfile.mkdtemp(), "socket")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(place))
    listener.listen(64)
    end, _kept = os.pipe()
    if os.fork() == 0:
        os.close(_kept)
        forks.serve(listener, end, list(sys.path))
    listener.close()
    os.close(end)
    return str(place)


if __name__ == "__main__":
    if sys.argv[1] == WORKER:
        exec(sys.argv[2])
    else:
        main(*sys.argv[1:])
