"""An object that somebody replaces again and again while a test reads it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PAUSE = 6
"""Pauses in units of the time of a write: a reader asks three times for each of its reads, and as slowly as a write on
a busy machine. Without pauses, one in a thousand readers would meet a writer at each of its tries.
"""


@contextmanager
def rewriting(write: Callable[[int], object]) -> Iterator[None]:
    """Call `write` with 1, 2, … in another thread until the block ends, and then raise what it raised."""
    done, raised = threading.Event(), list[BaseException]()

    def work() -> None:
        try:
            for number in itertools.takewhile(lambda _: not done.is_set(), itertools.count(1)):
                start = time.monotonic()
                write(number)
                done.wait(PAUSE * (time.monotonic() - start))
        except BaseException as error:
            raised.append(error)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()
    if raised:
        raise raised[0]
