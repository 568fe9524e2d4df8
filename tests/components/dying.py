"""Calls in a child process that dies, or finds the disk full, right before one of its changes to the file system.

    changes(lambda: record(path, model), tmp_path)     # ["open .blessed.json…partial", "fsync …", "rename …", …]

    for number, ended in deaths(lambda: record(path, model), tmp_path):
        ...                                            # look at what the kill before change `number` has left

Changes are what Python itself reports (`sys.addaudithook`), and fsync, which it does not.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_NAMED = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"})
_NEEDS_ROOM = ("open ", "mkdir ", "link ", "rename ", "fsync ")
"""Changes that a full disk refuses: it never refuses to remove anything."""


def changes(call: Callable[[], object], folder: Path) -> list[str]:
    """All changes that the call makes below the folder, in order: what is done, and to which name."""
    with tempfile.NamedTemporaryFile() as reported:
        assert _in_child(call, folder, lambda _, what: os.write(reported.fileno(), f"{what}\n".encode())) == 0
        return Path(reported.name).read_text(encoding="utf-8").splitlines()


def deaths(call: Callable[[], object], folder: Path) -> Iterator[int]:
    """Make the call again and again, killed before its first change, its second and so on, until it comes to its end;
    the number of the change after each kill. The caller brings back whatever it wants the next call to find.
    """
    _prepare_forks()
    for number in range(10_000):
        status = _in_child(call, folder, _Kill(number))
        if status == 0:
            return
        assert os.WIFSIGNALED(status), f"ended with {status} before change {number}"
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield number
    raise AssertionError("the call never ends")


def _prepare_forks() -> None:
    """Make forks of this process cheap: it has imported much, and is forked dozens of times."""
    from forks import collapse  # here, as a program that only dies has no other test module in its path

    collapse()


def full_disks(call: Callable[[], object], folder: Path) -> Iterator[int]:
    """The same with a disk that is full from that change on."""
    _prepare_forks()
    for number in range(10_000):
        status = _in_child(call, folder, _Refusal(number))
        if status == 0:
            return
        yield number
    raise AssertionError("the call never ends")


def _in_child(call: Callable[[], object], folder: Path, before: Callable[[int, str], object]) -> int:
    """The status that waitpid gives. 256: the call raised an error."""
    pid = os.fork()
    if pid == 0:
        try:
            watch(str(folder), before)
            call()
            os._exit(0)
        except OSError:
            os._exit(1)
        except BaseException as error:
            cause = error.__cause__
            if not isinstance(cause, OSError):
                traceback.print_exc()
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def watch(folder: str, before: Callable[[int, str], object]) -> None:
    count = 0
    busy = False

    def change(what: str, path: object) -> None:
        nonlocal count, busy
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else _named(path)
        if busy or not name.startswith(folder):
            return
        busy = True
        try:
            before(count, f"{what} {os.path.relpath(name, folder)}")
        finally:
            busy = False
            count += 1

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
            change("open", arguments[0])
        elif event in _NAMED:
            change(event.removeprefix("os."), arguments[0])

    fsync = os.fsync

    def seen_fsync(descriptor: int) -> None:
        change("fsync", descriptor)
        fsync(descriptor)

    os.fsync = seen_fsync  # type: ignore[assignment]
    sys.addaudithook(hook)


def _named(descriptor: object) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink()) if isinstance(descriptor, int) else ""


@dataclass(frozen=True)
class _Kill:
    number: int

    def __call__(self, at: int, _what: str) -> None:
        if at == self.number:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class _Refusal:
    number: int

    def __call__(self, at: int, what: str) -> None:
        if at >= self.number and what.startswith(_NEEDS_ROOM):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
