"""How a command is ended from outside: Ctrl-C, SIGTERM, or a pipe whose reader has gone."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator

CTRL_C = 130
"""The exit status that a shell reports for a program ended by Ctrl-C."""
BROKEN_PIPE = 141
"""The exit status that a shell reports for a program that wrote to a pipe without a reader."""


class ReaderGoneError(KeyboardInterrupt):
    """Ends a run as Ctrl-C does, with the same clean-up, because nobody reads its output any more."""


@contextlib.contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, so that temporary files and processes are cleaned up."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def interrupted_once() -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM raise KeyboardInterrupt, and ignore further ones.

    After the first signal the command cleans up, reports and ends; an impatient user must not break that off.
    """
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            raise KeyboardInterrupt

    # A background job of a script ignores Ctrl-C, and continues to.
    handled = [number for number in _signals() if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    finally:
        if not interrupted:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore both signals for a moment, so that a clean-up or a final report is completed."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def handlers_restored() -> Iterator[None]:
    """Restore the handlers of both signals afterwards: the calling program continues after an interrupted run."""
    before = {number: signal.getsignal(number) for number in _signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stdout_has_no_reader() -> bool:
    """Whether standard output is a pipe whose reader has gone, as in `headrace runs taxi.yaml | head -1`."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def discard_stdout() -> None:
    """Send further output to /dev/null, including what Python flushes when it exits."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _signals() -> tuple[signal.Signals, ...]:
    """The signals that end a command. Only the main thread may set their handlers."""
    return (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
