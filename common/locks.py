"""File locks: one process holds a file at a time, along with the processes that it passes the open file to."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from headrace.common.errors import InProgressError

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.005
ASKED_SECONDS = 0.5
"""How long a lock may seem to be held because somebody asks `is_held`."""
_adopted: list[int] = []


@contextlib.contextmanager
def hold(file: Path, refusal: Callable[[], str]) -> Iterator[TextIO]:
    """Lock the file, or raise InProgressError at once if another process holds it.

    refusal: the message, asked for once the lock is found to be held, so that it can say what the holder wrote.

    The lock ends with the process. Processes that inherit the open file hold the lock too, until the last of them has
    ended or closed it.
    """
    with file.open("a", encoding="utf-8") as opened:
        if not _try_lock_until(opened, ASKED_SECONDS):
            raise InProgressError(refusal())
        yield opened


@contextlib.contextmanager
def wait_and_hold(file: Path, waiting: str = "") -> Iterator[None]:
    """Wait until no other process holds the file, then lock it. No effect on file systems without locks.

    waiting: a warning that is logged if another process holds it; "" for none.
    """
    with file.open("a", encoding="utf-8") as opened:
        with contextlib.suppress(OSError):
            if waiting and not _try_lock(opened):
                logger.warning(waiting)
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def wait_until_free(file: Path, seconds: float) -> bool:
    """Wait at most `seconds` until no process holds the file; return whether it is free."""
    with file.open("a", encoding="utf-8") as opened:
        return _try_lock_until(opened, seconds)


def is_held(file: Path) -> bool:
    """Whether a process holds the file. It is asked with a shared lock for a moment, which `hold` waits out."""
    try:
        with file.open(encoding="utf-8") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such file, or the file system has no locks
        return False
    return False


def adopt(descriptor: int) -> None:
    """Hold a lock that this process inherited.

    Forked processes hold it too; programs that this process starts do not, unless they are given
    `adopted_descriptors()`.
    """
    os.set_inheritable(descriptor, False)
    _adopted.append(descriptor)


def adopted_descriptors() -> tuple[int, ...]:
    """The `pass_fds` of a subprocess that must keep holding the adopted locks."""
    return tuple(_adopted)


def _try_lock_until(opened: TextIO, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (locked := _try_lock(opened)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return locked


def _try_lock(opened: TextIO) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
