"""A file that one process at a time holds, or one process and those that it hands its hold on to."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from headrace.configs.errors import RunError

POLL_SECONDS = 0.005
_kept: list[int] = []


@contextlib.contextmanager
def held(file: Path, refusal: str) -> Iterator[TextIO]:
    """Hold it. RunError with `refusal` at once if another process does; a process that dies gives it up.

    Processes that were handed the open file hold it too, until the last of them has ended or closed it.
    """
    with file.open("a", encoding="utf-8") as opened:
        if not _taken(opened):
            raise RunError(refusal)
        yield opened


@contextlib.contextmanager
def alone(file: Path) -> Iterator[None]:
    """Wait until no other process holds it, and hold it. Without effect on file systems that have no locks."""
    with file.open("a", encoding="utf-8") as opened:
        with contextlib.suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def free(file: Path, seconds: float) -> bool:
    """Wait until nobody holds it, at most that long; whether nobody does."""
    deadline = time.monotonic() + seconds
    with file.open("a", encoding="utf-8") as opened:
        while not (found := _taken(opened)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    return found


def keep(descriptor: int) -> None:
    """Hold a file that this process was handed, with all that it forks; a program that it starts does not, but for
    those that get what `kept` gives.
    """
    os.set_inheritable(descriptor, False)
    _kept.append(descriptor)


def kept() -> tuple[int, ...]:
    """The `pass_fds` of a program that works on with what others are to be kept out of."""
    return tuple(_kept)


def _taken(opened: TextIO) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
