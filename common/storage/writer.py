"""Objects that are written whole, although a signal ends the process meanwhile.

with object_stream(system, "bucket/taxi/blessed.json") as stream:
    stream.write(content)

PyArrow can only close a stream, even one that nobody holds any more, and then the object is what was written to it. So
an exception that SIGTERM or Ctrl-C raises while it is being opened would leave an empty object in the place of the old
one, and a later one the start of the new one.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHUNK = 10 << 20
"""Bytes of a file that `put_file` writes at a time: one part of PyArrow's uploads."""


@contextlib.contextmanager
def object_stream(system: Any, path: str, **options: Any) -> Iterator[Any]:
    """A stream into an object of a pyarrow.fs.FileSystem. Signals take effect once it is closed.

    options: those of `open_output_stream`. May raise OSError.
    """
    # By its default, PyArrow would compress files named *.gz.
    with signals_deferred(), system.open_output_stream(path, compression=None, **options) as stream:
        yield stream


def put_file(system: Any, file: Path, path: str, check: Callable[[], None]) -> None:
    """Upload a file under a lock. If that fails, or the lock is lost, no object is left.

    system: of `filesystems.promptly`; check: called before each part, raises an error if the lock was lost.

    PyArrow can only close a stream, and then the store has what was written to it. So nothing is opened before the
    first check, and what a later one stops is removed. May raise OSError.
    """
    with file.open("rb") as source:
        chunk = source.read(CHUNK)
        check()
        try:
            with system.open_output_stream(path, compression=None) as target:
                target.write(chunk)
                while chunk := source.read(CHUNK):
                    check()
                    target.write(chunk)
        except BaseException:
            with contextlib.suppress(OSError):
                system.delete_file(path)
            raise


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Let SIGINT and SIGTERM take effect after the block. One that ends the process without Python still does so."""
    if threading.current_thread() is not threading.main_thread():  # to which alone signals come
        yield
        return
    arrived: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in before:
        signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in dict.fromkeys(arrived):
            signal.raise_signal(one)
