"""What Ctrl-C and SIGTERM do while the command runs, waits or tidies up."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, so that its temporary files and processes go with it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM end a run as Ctrl-C does, by KeyboardInterrupt. Once one has come the command tidies up, reports and
    ends: more of them, from an impatient user, change nothing from then on.
    """
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        if not stopped:
            stopped = True
            raise KeyboardInterrupt

    heeded = [number for number in _signals() if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heeded}  # a script's background job ignores Ctrl-C
    try:
        yield
    finally:
        if not stopped:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore both for a moment: a clean-up, or the report of a run that is done, is not broken off."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Have both do afterwards what they did before: a program goes on after a run that was stopped."""
    before = {number: signal.getsignal(number) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals() -> tuple[signal.Signals, ...]:
    """Those that end a command. Only the main thread of a program may say what they do."""
    return (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
